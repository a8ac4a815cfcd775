#include "comm/gloo/gloo_world.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "comm/gloo/gloo_links.h"
#include "comm/gloo/local_address.h"
#include "comm/linked_world.h"
#include "comm/one.h"

namespace weft::comm {
namespace {

class GlooConnector : public Connector {
 public:
  GlooConnector(c10::intrusive_ptr<c10d::Store> store, GlooOptions options)
      : store_(std::move(store)), options_(std::move(options)) {}

  std::unique_ptr<Links> connect(const GroupName& group, const std::string& key) override {
    return connect_gloo(*store_, group, key, options_, alarm_);
  }

 private:
  std::shared_ptr<Alarm> alarm_ = std::make_shared<Alarm>();
  c10::intrusive_ptr<c10d::Store> store_;
  GlooOptions options_;
};

c10::intrusive_ptr<c10d::Store> make_store(const operate::RankEnvironment& ranks, const std::string& host, int port,
                                           std::chrono::milliseconds timeout) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<uint16_t>(port);
  options.isServer = ranks.rank == 0 && !ranks.store_is_hosted;
  options.waitWorkers = false;  // groups wait for their members
  options.timeout = timeout;
  if (options.isServer && ranks.store_socket >= 0) options.masterListenFd = ranks.store_socket;
  try {
    const auto store = c10::make_intrusive<c10d::TCPStore>(host, options);
    // A store that outlives the ranks remembers those of an earlier attempt.
    return c10::make_intrusive<c10d::PrefixStore>(fmt::format("weft/{}", ranks.attempt), store);
  } catch (const std::exception& error) {
    const std::string text = error.what();
    if (options.isServer && text.find("EADDRINUSE") != std::string::npos) {
      throw InputError(
          fmt::format("port {} of {} is in use: give another one (comm.port, or the launcher's)", port, host));
    }
    throw CommunicationError(fmt::format("rank {} of {} does not reach the store of rank 0 at {}:{} within {} s: {}",
                                         ranks.rank, ranks.size, host, port,
                                         static_cast<double>(timeout.count()) / 1000, text.substr(0, text.find('\n'))));
  }
}

}  // namespace

std::unique_ptr<World> make_gloo_world(const operate::RankEnvironment& ranks, const CommSettings& settings) {
  if (ranks.size == 1) return std::make_unique<OneWorld>();
  const std::string host = settings.address.empty() ? ranks.host : settings.address;
  const int port = settings.port == 0 ? ranks.port : settings.port;
  if (host.empty() || port == 0) {
    throw InputError(
        fmt::format("{} does not say where the {} ranks meet: give comm.address and comm.port, or set "
                    "MASTER_ADDR and MASTER_PORT",
                    ranks.launcher, ranks.size));
  }
  GlooOptions options{settings.interface, "", settings.timeout};
  if (options.interface.empty()) options.address = local_address_towards(host);
  auto store = make_store(ranks, host, port, settings.timeout);
  return std::make_unique<LinkedWorld>(
      ranks.rank, ranks.size, std::make_unique<GlooConnector>(std::move(store), std::move(options)), settings.timeout);
}

}  // namespace weft::comm
