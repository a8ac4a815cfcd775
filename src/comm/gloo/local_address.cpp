#include "comm/gloo/local_address.h"

#include <cerrno>
#include <cstring>
#include <memory>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/error.h"

namespace weft::comm {

std::string local_address_towards(const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* list = nullptr;
  if (const int error = getaddrinfo(host.c_str(), "9", &hints, &list); error != 0) {
    throw InputError(fmt::format("the address of rank 0, {}: {}", host, gai_strerror(error)));
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(list, freeaddrinfo);
  int last_error = 0;
  for (const addrinfo* each = list; each != nullptr; each = each->ai_next) {
    const int descriptor = socket(each->ai_family, each->ai_socktype | SOCK_CLOEXEC, each->ai_protocol);
    if (descriptor < 0) continue;
    sockaddr_storage own{};
    socklen_t length = sizeof(own);
    const bool found = connect(descriptor, each->ai_addr, each->ai_addrlen) == 0 &&
                       getsockname(descriptor, reinterpret_cast<sockaddr*>(&own), &length) == 0;
    last_error = errno;
    close(descriptor);
    char text[NI_MAXHOST];
    if (found &&
        getnameinfo(reinterpret_cast<sockaddr*>(&own), length, text, sizeof(text), nullptr, 0, NI_NUMERICHOST) == 0) {
      return text;
    }
  }
  throw InputError(
      fmt::format("the address of rank 0, {}, cannot be reached from here: {}", host, std::strerror(last_error)));
}

}  // namespace weft::comm
