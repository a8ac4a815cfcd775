// Ranks as threads of one process: memory is shared, so a call is a rendezvous and a copy or a sum. There is no thread
// beside the ranks': whoever waits for a call works on it, piece by piece, with the others that wait.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "comm/communicator.h"

namespace weft::comm {

struct ThreadOptions {
  // How long a member waits for the others to make a call; then the group is of no use any more.
  std::chrono::milliseconds timeout = std::chrono::minutes(10);
};

class ThreadGroup;

// The world that the ranks of one process share. Its methods may be called from any thread.
class ThreadWorld {
 public:
  explicit ThreadWorld(int size, ThreadOptions options = {});
  ~ThreadWorld();

  // As rank `rank` sees it; the object must outlive what is returned.
  [[nodiscard]] std::unique_ptr<World> rank(int rank);
  [[nodiscard]] int size() const { return size_; }
  // Frees every member that waits, at once and for good, also in groups that are made later.
  void abort(const std::string& reason);

 private:
  friend class ThreadRank;
  // The members of a group come with the same name, ranks and `turn` (how many such groups they have made before).
  std::shared_ptr<ThreadGroup> group(const std::vector<int>& ranks, const std::string& name, int turn);

  const int size_;
  const ThreadOptions options_;
  std::mutex mutex_;
  std::map<std::tuple<std::string, std::vector<int>, int>, std::shared_ptr<ThreadGroup>> groups_;
  std::string aborted_;
};

// Runs body in `count` threads, each with its rank's world, and returns when all have ended. The first exception aborts
// the world and is thrown again, "rank 3: " before its text, as an InputError, Interrupted, CommunicationError or
// Error.
void run_ranks(int count, const std::function<void(World&)>& body, ThreadOptions options = {});

}  // namespace weft::comm
