#include "comm/threads.h"

#include <exception>
#include <thread>

#include <fmt/format.h>

#include "base/check.h"
#include "comm/call.h"
#include "comm/one.h"
#include "comm/thread_group.h"

namespace weft::comm {
namespace {

class ThreadWork : public Work {
 public:
  ThreadWork(std::shared_ptr<ThreadGroup> group, std::shared_ptr<ThreadGroup::Meeting> meeting, int member)
      : group_(std::move(group)), meeting_(std::move(meeting)), member_(member) {}
  ThreadWork(const ThreadWork&) = delete;
  ThreadWork& operator=(const ThreadWork&) = delete;

  ~ThreadWork() override {
    if (!meeting_) return;
    if (std::uncaught_exceptions() > exceptions_) group_->leave(member_);
    try {
      wait();
    } catch (const CommunicationError&) {  // the group is of no use, which its next call says
    }
  }

  void wait() override {
    if (!meeting_) return;
    const auto meeting = std::exchange(meeting_, nullptr);
    group_->finish(*meeting, member_);
  }

 private:
  std::shared_ptr<ThreadGroup> group_;
  std::shared_ptr<ThreadGroup::Meeting> meeting_;  // null once waited for
  int member_;
  int exceptions_ = std::uncaught_exceptions();
};

class ThreadCommunicator : public CheckedCommunicator {
 public:
  ThreadCommunicator(GroupName name, std::shared_ptr<ThreadGroup> shared)
      : CheckedCommunicator(std::move(name)), shared_(std::move(shared)) {}

  void abort(const std::string& reason) override { shared_->abort(reason); }

 protected:
  Handle start(Call call) override {
    int stream = 0;
    if (call.card.operation == Operation::kSend) stream = 1 + rank() * size() + call.peer;
    if (call.card.operation == Operation::kReceive) stream = 1 + call.peer * size() + rank();
    const int member = rank();
    auto meeting = shared_->arrive(member, {stream, calls_made_[stream]++}, std::move(call));
    return std::make_unique<ThreadWork>(shared_, std::move(meeting), member);
  }

 private:
  std::shared_ptr<ThreadGroup> shared_;
  std::map<int, int64_t> calls_made_;  // by stream
};

}  // namespace

class ThreadRank : public World {
 public:
  ThreadRank(ThreadWorld& shared, int rank) : shared_(shared), rank_(rank) {}
  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return shared_.size(); }
  void abort(const std::string& reason) override { shared_.abort(reason); }

  std::unique_ptr<Communicator> make_group(std::span<const int> ranks, const std::string& name) override {
    GroupName group = checked_group(ranks, name, rank_, size());
    if (group.size() == 1) return make_group_of_one(name, rank_);
    auto shared = shared_.group(group.ranks, name, groups_made_[{name, group.ranks}]++);
    return std::make_unique<ThreadCommunicator>(std::move(group), std::move(shared));
  }

 private:
  ThreadWorld& shared_;
  int rank_;
  std::map<std::pair<std::string, std::vector<int>>, int> groups_made_;
};

ThreadWorld::ThreadWorld(int size, ThreadOptions options) : size_(size), options_(options) { WEFT_CHECK(size >= 1); }

ThreadWorld::~ThreadWorld() = default;

std::unique_ptr<World> ThreadWorld::rank(int rank) {
  WEFT_CHECK(rank >= 0 && rank < size_);
  return std::make_unique<ThreadRank>(*this, rank);
}

std::shared_ptr<ThreadGroup> ThreadWorld::group(const std::vector<int>& ranks, const std::string& name, int turn) {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<ThreadGroup>& group = groups_[{name, ranks, turn}];
  if (!group) {
    group = std::make_shared<ThreadGroup>(name, ranks, options_.timeout);
    if (!aborted_.empty()) group->abort(aborted_);
  }
  return group;
}

void ThreadWorld::abort(const std::string& reason) {
  const std::lock_guard lock(mutex_);
  if (aborted_.empty()) aborted_ = reason.empty() ? "aborted" : reason;
  for (const auto& [key, group] : groups_) group->abort(aborted_);
}

namespace {

// Throws the exception again, of the type that decides the exit code, with the rank before its text.
[[noreturn]] void rethrow(const std::exception_ptr& failure, int rank) {
  const auto message = [rank](const char* what) { return fmt::format("rank {}: {}", rank, what); };
  try {
    std::rethrow_exception(failure);
  } catch (const InputError& error) {
    throw InputError(message(error.what()));
  } catch (const Interrupted& error) {
    throw Interrupted(message(error.what()));
  } catch (const CommunicationError& error) {
    throw CommunicationError(message(error.what()));
  } catch (const std::exception& error) {
    throw Error(message(error.what()));
  }
}

std::string text_of(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const std::exception& error) {
    return error.what();
  }
}

}  // namespace

void run_ranks(int count, const std::function<void(World&)>& body, ThreadOptions options) {
  ThreadWorld shared(count, options);
  std::mutex mutex;
  std::exception_ptr first;
  int first_rank = 0;
  const auto run = [&](int rank) {
    try {
      const std::unique_ptr<World> world = shared.rank(rank);
      body(*world);
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (first) return;
      first = std::current_exception();
      first_rank = rank;
      shared.abort(fmt::format("rank {} failed: {}", rank, text_of(first)));
    }
  };
  std::vector<std::thread> threads;
  threads.reserve(static_cast<size_t>(count));
  for (int rank = 0; rank < count; ++rank) threads.emplace_back(run, rank);
  for (std::thread& thread : threads) thread.join();
  if (first) rethrow(first, first_rank);
}

}  // namespace weft::comm
