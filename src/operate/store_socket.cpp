#include "operate/store_socket.h"

#include <cerrno>
#include <cstring>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/error.h"

namespace weft::operate {

StoreSocket::StoreSocket(int port) : descriptor_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  socklen_t length = sizeof(address);
  const int yes = 1;
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  if (descriptor_ >= 0 && setsockopt(descriptor_, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)) == 0 &&
      bind(descriptor_, generic, length) == 0 && listen(descriptor_, SOMAXCONN) == 0 &&
      getsockname(descriptor_, generic, &length) == 0) {
    port_ = ntohs(address.sin_port);
    return;
  }
  const int error = errno;
  close();
  if (error == EADDRINUSE) throw InputError(fmt::format("port {} is in use: give another one, or none", port));
  throw Error(fmt::format("port {} cannot be opened: {}", port, std::strerror(error)));
}

StoreSocket::~StoreSocket() { close(); }

void StoreSocket::close() {
  if (descriptor_ >= 0) ::close(descriptor_);
  descriptor_ = -1;
}

}  // namespace weft::operate
