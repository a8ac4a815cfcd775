#include "comm/recorder.h"

#include <fmt/format.h>

namespace weft::comm {
namespace {

class RecordedCommunicator : public Communicator {
 public:
  RecordedCommunicator(std::unique_ptr<Communicator> inner, Recorder& recorder)
      : inner_(std::move(inner)), recorder_(recorder) {}

  [[nodiscard]] int rank() const override { return inner_->rank(); }
  [[nodiscard]] int size() const override { return inner_->size(); }
  [[nodiscard]] const std::string& name() const override { return inner_->name(); }
  void abort(const std::string& reason) override { inner_->abort(reason); }

  Handle all_reduce(Target numbers, Reduction reduction, std::string_view what) override {
    return counted(Operation::kAllReduce, numbers.bytes(), what,
                   [&] { return inner_->all_reduce(numbers, reduction, what); });
  }
  Handle reduce_scatter(Source numbers, Target own, std::span<const int64_t> counts, Reduction reduction,
                        std::string_view what) override {
    return counted(Operation::kReduceScatter, numbers.bytes(), what,
                   [&] { return inner_->reduce_scatter(numbers, own, counts, reduction, what); });
  }
  Handle all_gather(Source own, Target all, std::span<const int64_t> counts, std::string_view what) override {
    return counted(Operation::kAllGather, all.bytes(), what,
                   [&] { return inner_->all_gather(own, all, counts, what); });
  }
  Handle all_to_all(Source numbers, std::span<const int64_t> send_counts, Target received,
                    std::span<const int64_t> receive_counts, std::string_view what) override {
    return counted(Operation::kAllToAll, numbers.bytes(), what,
                   [&] { return inner_->all_to_all(numbers, send_counts, received, receive_counts, what); });
  }
  Handle broadcast(Target numbers, int root, std::string_view what) override {
    return counted(Operation::kBroadcast, numbers.bytes(), what,
                   [&] { return inner_->broadcast(numbers, root, what); });
  }
  Handle send(Source numbers, int to, std::string_view what) override {
    return counted(Operation::kSend, numbers.bytes(), what, [&] { return inner_->send(numbers, to, what); });
  }
  Handle receive(Target numbers, int from, std::string_view what) override {
    return counted(Operation::kReceive, numbers.bytes(), what, [&] { return inner_->receive(numbers, from, what); });
  }
  Handle barrier(std::string_view what) override {
    return counted(Operation::kBarrier, 0, what, [&] { return inner_->barrier(what); });
  }

 private:
  // The call, if it is allowed.
  template <typename Call>
  Handle counted(Operation operation, int64_t bytes, std::string_view what, Call call) {
    const TrafficKey key{name(), operation, std::string(what)};
    if (size() > 1) recorder_.admit(key, bytes);
    Handle handle = call();
    recorder_.count(key, bytes);
    return handle;
  }

  std::unique_ptr<Communicator> inner_;
  Recorder& recorder_;
};

class RecordedWorld : public World {
 public:
  RecordedWorld(World& inner, Recorder& recorder) : inner_(inner), recorder_(recorder) {}
  [[nodiscard]] int rank() const override { return inner_.rank(); }
  [[nodiscard]] int size() const override { return inner_.size(); }
  void abort(const std::string& reason) override { inner_.abort(reason); }
  std::unique_ptr<Communicator> make_group(std::span<const int> ranks, const std::string& name) override {
    return std::make_unique<RecordedCommunicator>(inner_.make_group(ranks, name), recorder_);
  }

 private:
  World& inner_;
  Recorder& recorder_;
};

}  // namespace

std::string difference(const Traffic& expected, const Traffic& counted) {
  Traffic keys = expected;
  keys.insert(counted.begin(), counted.end());
  std::string text;
  for (const auto& [key, unused] : keys) {
    const auto find = [&key = key](const Traffic& traffic) {
      const auto found = traffic.find(key);
      return found == traffic.end() ? TrafficCount() : found->second;
    };
    const TrafficCount planned = find(expected), made = find(counted);
    if (planned == made) continue;
    text +=
        fmt::format("group {}, {} \"{}\": {} calls of {} bytes in all are expected, {} of {} were made\n", key.group,
                    comm::text(key.operation), key.what, planned.calls, planned.bytes, made.calls, made.bytes);
  }
  return text;
}

void Recorder::count(const TrafficKey& key, int64_t bytes) {
  const std::lock_guard lock(mutex_);
  TrafficCount& total = traffic_[key];
  ++total.calls;
  total.bytes += bytes;
}

void Recorder::allow(Traffic plan) {
  const std::lock_guard lock(mutex_);
  traffic_.clear();
  plan_ = std::move(plan);
}

void Recorder::admit(const TrafficKey& key, int64_t bytes) const {
  const std::lock_guard lock(mutex_);
  if (!plan_) return;
  const auto planned = plan_->find(key);
  const auto made = traffic_.find(key);
  const TrafficCount before = made == traffic_.end() ? TrafficCount() : made->second;
  const TrafficCount most = planned == plan_->end() ? TrafficCount() : planned->second;
  if (before.calls < most.calls && before.bytes + bytes <= most.bytes) return;
  throw CommunicationError(fmt::format(
      "group {}: {} \"{}\" of {} bytes is not in the plan, which has {} calls of {} bytes in all; {} of {} were made",
      key.group, comm::text(key.operation), key.what, bytes, most.calls, most.bytes, before.calls, before.bytes));
}

Traffic Recorder::traffic() const {
  const std::lock_guard lock(mutex_);
  return traffic_;
}

void Recorder::clear() {
  const std::lock_guard lock(mutex_);
  traffic_.clear();
}

std::unique_ptr<World> recorded(World& world, Recorder& recorder) {
  return std::make_unique<RecordedWorld>(world, recorder);
}

}  // namespace weft::comm
