#include <condition_variable>
#include <deque>
#include <map>
#include <numeric>
#include <thread>

#include <gtest/gtest.h>

#include "comm/linked_group.h"
#include "comm/linked_world.h"
#include "comm/test_calls.h"

namespace weft::comm {
namespace {

using namespace std::chrono_literals;
using mesh::ElementType;

// Connections between threads that behave as gloo's: a message is delivered when both sides have named it, and one of
// another size is what must never happen.
class Wires {
 public:
  explicit Wires(int size) : open_(size, true) {}

  struct Message {
    int from, to;
    void* data;
    int64_t bytes;
    bool sends;
    bool done = false, cancelled = false;
  };
  using Key = std::tuple<int, int, int>;  // from, to, channel

  void post(const std::shared_ptr<Message>& message, Key key) {
    const std::lock_guard lock(mutex_);
    if (!open_[message->from] || !open_[message->to]) throw CommunicationError("the wire is cut");
    auto& others = waiting_[key];
    std::erase_if(others, [](const auto& other) { return other.expired(); });
    if (!others.empty() && others.front().lock()->sends != message->sends) {
      const auto other = others.front().lock();
      others.pop_front();
      const auto& [source, target] = message->sends ? std::tie(*message, *other) : std::tie(*other, *message);
      EXPECT_EQ(source.bytes, target.bytes) << "gloo would end the process";
      std::memcpy(target.data, source.data, static_cast<size_t>(std::min(source.bytes, target.bytes)));
      message->done = other->done = true;
      changed_.notify_all();
    } else {
      others.push_back(message);
    }
  }
  Transfer::Outcome wait(Message& message, Transfer::Deadline deadline) {
    std::unique_lock lock(mutex_);
    const auto ended = [&] { return message.done || message.cancelled || !open_[message.from] || !open_[message.to]; };
    if (!changed_.wait_until(lock, deadline, ended)) return Transfer::Outcome::kLate;
    if (message.done) return Transfer::Outcome::kDone;
    if (message.cancelled) return Transfer::Outcome::kCancelled;
    throw CommunicationError("the wire is cut");
  }
  void cancel(Message& message) {
    const std::lock_guard lock(mutex_);
    message.cancelled = true;
    changed_.notify_all();
  }
  void close(int member) {
    const std::lock_guard lock(mutex_);
    open_[member] = false;
    changed_.notify_all();
  }
  // Destroying a message waits until nobody copies it.
  std::unique_lock<std::mutex> lock() { return std::unique_lock(mutex_); }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<Key, std::deque<std::weak_ptr<Message>>> waiting_;
  std::vector<bool> open_;
};

class WireTransfer : public Transfer {
 public:
  WireTransfer(Wires& wires, std::shared_ptr<Wires::Message> message) : wires_(wires), message_(std::move(message)) {}
  ~WireTransfer() override {
    const auto lock = wires_.lock();
    message_.reset();
  }
  Outcome wait(Deadline deadline) override { return wires_.wait(*message_, deadline); }
  void cancel() override { wires_.cancel(*message_); }

 private:
  Wires& wires_;
  std::shared_ptr<Wires::Message> message_;
};

class WireLinks : public Links {
 public:
  WireLinks(Wires& wires, int rank) : wires_(wires), rank_(rank) {}
  ~WireLinks() override { wires_.close(rank_); }
  std::unique_ptr<Transfer> send(int to, int channel, const void* data, int64_t bytes) override {
    return post({rank_, to, const_cast<void*>(data), bytes, true}, channel);
  }
  std::unique_ptr<Transfer> receive(int from, int channel, void* data, int64_t bytes) override {
    return post({from, rank_, data, bytes, false}, channel);
  }

 private:
  std::unique_ptr<Transfer> post(const Wires::Message& message, int channel) {
    auto shared = std::make_shared<Wires::Message>(message);
    wires_.post(shared, {message.from, message.to, channel});
    return std::make_unique<WireTransfer>(wires_, std::move(shared));
  }

  Wires& wires_;
  int rank_;
};

// Runs body for each member in a thread of its own; gives the text of the CommunicationError that ends it.
std::vector<std::string> run_linked(int size, std::chrono::milliseconds timeout,
                                    const std::function<void(Communicator&)>& body) {
  Wires wires(size);
  std::vector<int> ranks(size);
  std::iota(ranks.begin(), ranks.end(), 0);
  std::vector<std::string> texts(size);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        LinkedCommunicator group({"tp", ranks, rank}, std::make_unique<WireLinks>(wires, rank), timeout);
        body(group);
      } catch (const Error& error) {
        texts[rank] = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return texts;
}

void expect_words(const std::string& text, std::initializer_list<std::string_view> words) {
  for (const std::string_view word : words) EXPECT_NE(text.find(word), std::string::npos) << word << " in: " << text;
}

Handle sum(Communicator& group, std::vector<float>& numbers, int64_t count, std::string_view what = "gradient") {
  return group.all_reduce({numbers.data(), count, ElementType::kFloat32}, Reduction::kSum, what);
}

TEST(Linked, EveryOperationGivesWhatItSays) {
  for (const int size : {2, 3, 4}) {
    const auto texts = run_linked(size, 60s, [](Communicator& group) {
      for (const TestResult& result : TestCalls(group).run()) EXPECT_EQ(result.bytes, result.expected) << result.name;
    });
    for (const std::string& text : texts) EXPECT_EQ(text, "");
  }
}

TEST(Linked, MismatchesAreSeenBeforeAnyData) {
  const auto texts = run_linked(3, 60s, [](Communicator& group) {
    std::vector<float> numbers(20'000);
    sum(group, numbers, group.rank() == 2 ? 19'999 : 20'000)->wait();
  });
  for (const std::string& text : texts) expect_words(text, {"rank 0 calls", "20000 f32", "rank 2 calls", "19999 f32"});

  const auto parts = run_linked(3, 60s, [](Communicator& group) {
    std::vector<float> numbers(20), received(20);
    std::vector<int64_t> counts = {2, 2, 2}, expected = {2, 2, 2};
    if (group.rank() == 1) expected = {3, 2, 2};
    group
        .all_to_all({numbers.data(), 6, ElementType::kFloat32}, counts,
                    {received.data(), expected[0] + 4, ElementType::kFloat32}, expected, "tokens")
        ->wait();
    group.barrier("after")->wait();
  });
  for (const std::string& text : parts) expect_words(text, {"rank 0 sends rank 1 2", "expects 3"});
}

TEST(Linked, AMessageOfAnotherSizeIsRefused) {
  const auto texts = run_linked(2, 60s, [](Communicator& group) {
    std::vector<float> numbers(8);
    if (group.rank() == 0) group.send({numbers.data(), 8, ElementType::kFloat32}, 1, "activations")->wait();
    if (group.rank() == 1) group.receive({numbers.data(), 4, ElementType::kFloat32}, 0, "activations")->wait();
    group.barrier("after")->wait();
  });
  for (const std::string& text : texts) expect_words(text, {"rank 0 sends rank 1 8 f32", "expects 4 f32"});
}

TEST(Linked, AFailureIsToldToAllAndNamesItsOrigin) {
  const auto start = std::chrono::steady_clock::now();
  const auto texts = run_linked(3, 60s, [](Communicator& group) {
    std::vector<float> numbers(8);
    sum(group, numbers, 8)->wait();
    const Handle pending = sum(group, numbers, 8);
    if (group.rank() == 1) {
      group.abort("the disk is full");
      throw InputError("mine");
    }
    pending->wait();
    sum(group, numbers, 8)->wait();
  });
  EXPECT_EQ(texts[1], "mine");
  for (const int rank : {0, 2}) expect_words(texts[rank], {"all_reduce", "group tp", "rank 1: the disk is full"});
  EXPECT_LT(std::chrono::steady_clock::now() - start, 20s);
}

TEST(Linked, LeavingByAnExceptionFreesTheOthers) {
  const auto texts = run_linked(3, 60s, [](Communicator& group) {
    std::vector<float> numbers(8);
    const Handle pending = sum(group, numbers, 8, "one");
    if (group.rank() == 1) throw InputError("mine");
    pending->wait();
    sum(group, numbers, 8, "two")->wait();
  });
  for (const int rank : {0, 2}) expect_words(texts[rank], {"group tp", "rank 1: left because of an error of its own"});
}

TEST(Linked, WhoIsLateIsNamed) {
  const auto texts = run_linked(4, 200ms, [](Communicator& group) {
    std::vector<float> numbers(8);
    if (group.rank() == 2) {
      std::this_thread::sleep_for(1s);
    } else {
      sum(group, numbers, 8)->wait();
    }
  });
  for (const int rank : {0, 1, 3}) expect_words(texts[rank], {"\"gradient\"", "group tp", "waited 0.2 s for rank 2"});
}

TEST(Linked, WhoEndedIsNamed) {
  const auto texts = run_linked(3, 60s, [](Communicator& group) {
    std::vector<float> numbers(8);
    if (group.rank() != 2) sum(group, numbers, 8)->wait();
  });
  for (const int rank : {0, 1}) expect_words(texts[rank], {"\"gradient\"", "group tp", "rank 2 ended"});
}

// What a group costs at the store is what its connector does for one key: the world asks once a group, whatever its
// size.
class CountingConnector : public Connector {
 public:
  CountingConnector(std::map<std::string, std::vector<int>>& groups, int64_t& connections)
      : groups_(groups), connections_(connections) {}
  std::unique_ptr<Links> connect(const GroupName& group, const std::string& key) override {
    ++connections_;
    const auto [found, added] = groups_.emplace(key, group.ranks);
    EXPECT_EQ(found->second, group.ranks) << "two groups have the key " << key;
    return std::make_unique<NoLinks>();
  }

 private:
  class NoTransfer : public Transfer {
   public:
    Outcome wait(Deadline /*deadline*/) override { return Outcome::kDone; }
    void cancel() override {}
  };
  class NoLinks : public Links {
   public:
    std::unique_ptr<Transfer> send(int, int, const void*, int64_t) override { return std::make_unique<NoTransfer>(); }
    std::unique_ptr<Transfer> receive(int, int, void*, int64_t) override { return std::make_unique<NoTransfer>(); }
  };

  std::map<std::string, std::vector<int>>& groups_;
  int64_t& connections_;
};

TEST(LinkedWorld, ConnectsOnceAGroupAtTenThousandRanks) {
  constexpr int kTensor = 8, kPipeline = 10;
  for (const int size : {80, 10'000}) {
    std::map<std::string, std::vector<int>> groups;
    int64_t connections = 0;
    for (int rank = 0; rank < size; ++rank) {
      LinkedWorld world(rank, size, std::make_unique<CountingConnector>(groups, connections), 1s);
      std::vector<int> tensor, pipeline;
      for (int i = 0; i < kTensor; ++i) tensor.push_back(rank / kTensor * kTensor + i);
      const int stride = size / kPipeline;
      for (int i = 0; i < kPipeline; ++i) pipeline.push_back(rank % stride + i * stride);
      const int64_t before = connections;
      for (int i = 0; i < 2; ++i) (void)world.make_group(tensor, "tp");
      (void)world.make_group(pipeline, "pp");
      (void)world.make_group(std::vector{rank}, "ep");
      EXPECT_EQ(connections - before, 3) << "one a group, none for a group of one";
    }
    EXPECT_EQ(groups.size(), 2 * size / kTensor + size / kPipeline);
  }
}

TEST(LinkedWorld, AbortEndsItsGroups) {
  std::map<std::string, std::vector<int>> groups;
  int64_t connections = 0;
  LinkedWorld world(0, 2, std::make_unique<CountingConnector>(groups, connections), 1s);
  const auto group = world.make_group(std::vector{0, 1}, "tp");
  world.abort("stopped");
  EXPECT_THROW((void)group->barrier("x"), CommunicationError);
  EXPECT_THROW((void)world.make_group(std::vector{0, 1}, "tp"), CommunicationError);
}

}  // namespace
}  // namespace weft::comm
