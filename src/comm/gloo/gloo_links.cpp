#include "comm/gloo/gloo_links.h"

#include <atomic>

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

namespace weft::comm {
namespace {

using c10d::ProcessGroupGloo;

// gloo's own timeout must not come first: it breaks every connection of the group, and then nobody can say why.
constexpr std::chrono::milliseconds kNever = std::chrono::hours(24 * 365);

// gloo's texts begin with the place in its source and may end with a backtrace of c10's.
std::string cause(const std::exception& error) {
  std::string text = error.what();
  text = text.substr(0, text.find('\n'));
  if (text.starts_with('[')) {
    const size_t end = text.find("] ");
    if (end != std::string::npos) text = text.substr(end + 2);
  }
  const size_t advice = text.find(". This is typically");
  return text.substr(0, advice);
}

class GlooTransfer : public Transfer {
 public:
  GlooTransfer(c10::intrusive_ptr<c10d::Work> work, std::shared_ptr<Alarm> alarm)
      : work_(std::move(work)), alarm_(std::move(alarm)) {}

  Outcome wait(Deadline deadline) override {
    if (cancelled_) return Outcome::kCancelled;
    std::atomic<bool> late = false;
    bool done = false;
    try {
      // An abort counts more than what has come already, so one that has come gets a moment to say so.
      const auto soonest = std::chrono::steady_clock::now() + std::chrono::milliseconds(20);
      const Alarm::Entry entry(*alarm_, std::max(deadline, soonest), [&] {
        late = true;
        work_->abort();
      });
      done = work_->wait(kNever);
    } catch (const std::exception& error) {
      throw CommunicationError(cause(error));
    }
    if (done) return Outcome::kDone;
    return cancelled_ ? Outcome::kCancelled : Outcome::kLate;
  }

  void cancel() override {
    cancelled_ = true;
    work_->abort();
  }

 private:
  c10::intrusive_ptr<c10d::Work> work_;
  std::shared_ptr<Alarm> alarm_;
  std::atomic<bool> cancelled_ = false;
};

class GlooLinks : public Links {
 public:
  GlooLinks(c10::intrusive_ptr<ProcessGroupGloo> group, std::shared_ptr<Alarm> alarm)
      : group_(std::move(group)), alarm_(std::move(alarm)) {}

  std::unique_ptr<Transfer> send(int to, int channel, const void* data, int64_t bytes) override {
    return start([&](std::vector<at::Tensor>& tensors) { return group_->send(tensors, to, channel); },
                 const_cast<void*>(data), bytes);
  }
  std::unique_ptr<Transfer> receive(int from, int channel, void* data, int64_t bytes) override {
    return start([&](std::vector<at::Tensor>& tensors) { return group_->recv(tensors, from, channel); }, data, bytes);
  }

 private:
  template <class Start>
  std::unique_ptr<Transfer> start(const Start& call, void* data, int64_t bytes) {
    std::vector<at::Tensor> tensors = {at::from_blob(data, {bytes}, at::kByte)};
    try {
      return std::make_unique<GlooTransfer>(call(tensors), alarm_);
    } catch (const std::exception& error) {
      throw CommunicationError(cause(error));
    }
  }

  c10::intrusive_ptr<ProcessGroupGloo> group_;
  std::shared_ptr<Alarm> alarm_;
};

std::shared_ptr<gloo::transport::Device> make_device(const GlooOptions& options) {
  if (options.interface.empty()) return ProcessGroupGloo::createDeviceForHostname(options.address);
  try {
    return ProcessGroupGloo::createDeviceForInterface(options.interface);
  } catch (const std::exception& error) {
    throw InputError(fmt::format("comm.interface = \"{}\": {}", options.interface, cause(error)));
  }
}

}  // namespace

std::unique_ptr<Links> connect_gloo(c10d::Store& store, const GroupName& group, const std::string& key,
                                    const GlooOptions& options, std::shared_ptr<Alarm> alarm) {
  const auto gloo = ProcessGroupGloo::Options::create(options.timeout);
  gloo->devices.push_back(make_device(options));
  gloo->threads = 1;  // messages need none; it insists on one
  try {
    const auto shared = c10::intrusive_ptr<c10d::Store>::reclaim_copy(&store);
    const auto prefixed = c10::make_intrusive<c10d::PrefixStore>(key, shared);
    auto backend = c10::make_intrusive<ProcessGroupGloo>(prefixed, group.rank, group.size(), gloo);
    backend->setTimeout(kNever);
    return std::make_unique<GlooLinks>(std::move(backend), std::move(alarm));
  } catch (const std::exception& error) {
    throw CommunicationError(fmt::format("group {}, rank {}: its members ({}) did not all connect within {} s: {}",
                                         group.name, group.ranks[group.rank], ranks_text(group.ranks),
                                         static_cast<double>(options.timeout.count()) / 1000, cause(error)));
  }
}

}  // namespace weft::comm
