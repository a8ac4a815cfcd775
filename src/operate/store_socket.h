// The socket on which the ranks' store listens.
#pragma once

namespace weft::operate {

// Opened by the launcher and handed to rank 0, so that nobody else takes the port in between. Listens on the loopback
// address. InputError if the port is in use.
class StoreSocket {
 public:
  explicit StoreSocket(int port);  // 0: a free one
  StoreSocket(const StoreSocket&) = delete;
  StoreSocket& operator=(const StoreSocket&) = delete;
  ~StoreSocket();

  [[nodiscard]] int port() const { return port_; }
  [[nodiscard]] int descriptor() const { return descriptor_; }
  void close();

 private:
  int descriptor_ = -1;
  int port_ = 0;
};

}  // namespace weft::operate
