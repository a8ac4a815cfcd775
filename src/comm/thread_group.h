// What the members of one group of threads share: the calls that some of them have made and not all have finished.
#pragma once

#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "comm/call.h"

namespace weft::comm {

// A part of a call's work, done by one thread in one go: elements [begin, end) of a part.
struct Piece {
  int from = 0;  // the member whose part it is (of an all-gather and all-to-all)
  int to = 0;    // the member that it goes to (of a reduce-scatter and all-to-all)
  int64_t begin = 0;
  int64_t end = 0;
};

class ThreadGroup {
 public:
  ThreadGroup(std::string name, std::vector<int> ranks, std::chrono::milliseconds timeout);

  // Calls match by stream and place in it: collectives are one stream, messages between two members one each way.
  struct Place {
    int stream = 0;
    int64_t number = 0;
    friend auto operator<=>(const Place&, const Place&) = default;
  };
  class Meeting;  // the members of one call

  // Member `member` makes its call. Never waits. CommunicationError: the group was aborted.
  std::shared_ptr<Meeting> arrive(int member, Place place, Call call);
  // Works on the call and waits for it; the member must have arrived. Every arrival is followed by one finish().
  void finish(Meeting& meeting, int member);

  void abort(const std::string& reason);
  // Aborts since an exception takes this member away.
  void leave(int member) { abort(fmt::format("rank {}: left because of an error of its own", ranks_[member])); }

 private:
  [[nodiscard]] GroupName seen_by(int member) const { return {name_, ranks_, member}; }
  void start(Meeting& meeting);
  // Takes pieces until none is left. The lock is free while a piece is worked on.
  void work(Meeting& meeting, std::unique_lock<std::mutex>& lock);
  void fail(const std::string& reason);
  [[nodiscard]] std::string missing_text(const Meeting& meeting, int member) const;

  const std::string name_;
  const std::vector<int> ranks_;
  const std::chrono::milliseconds timeout_;
  std::mutex mutex_;
  std::map<Place, std::shared_ptr<Meeting>> meetings_;
  std::string failure_;  // of the group; empty as long as it works
};

}  // namespace weft::comm
