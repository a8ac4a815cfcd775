// Messages with all members of a group at once, in bounded time, and what happens when one of them fails.
#pragma once

#include <array>
#include <chrono>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "comm/call.h"
#include "comm/lane.h"
#include "comm/links.h"

namespace weft::comm {

// A failure is for good: it ends all waits here, is told to the other members, and then the connections break. So each
// member's reason names where it began: the own view of a member that is late or gone, or what that member has said.
// Methods may be called from any thread.
class Exchanger {
 public:
  struct Piece {
    int peer;
    void* data;
    int64_t bytes;
  };
  struct Pending {
    int peer;
    std::unique_ptr<Transfer> transfer;
  };
  enum class Direction { kSend, kReceive };
  // Whether this member found the failure, or a peer told of it.
  enum class Origin { kHere, kPeer };

  // `timeout`: how long wait_for() waits. Channel 0 is the exchanger's own.
  Exchanger(GroupName group, std::unique_ptr<Links> links, std::chrono::milliseconds timeout);

  // Starts a piece's message; nothing for an empty one. CommunicationError as wait_for().
  void post(std::vector<Pending>& pending, const Piece& piece, int channel, Direction direction);
  // CommunicationError: the reason of the failure, a member that was late, one that is gone.
  void wait_for(std::vector<Pending>& pending);
  // All pieces at once; returns when they have come and gone.
  void exchange(const std::vector<Piece>& sent, const std::vector<Piece>& received, int channel);

  // The first reason counts.
  void fail(const std::string& reason, Origin origin);
  [[nodiscard]] std::string failure() const;  // "" as long as there is none

 private:
  using NoticeText = std::array<char, 512>;
  struct Notice {
    std::unique_ptr<NoticeText> text;
    std::unique_ptr<Transfer> transfer;
  };

  Transfer::Outcome wait(Transfer& transfer, Transfer::Deadline deadline);
  [[noreturn]] void throw_lost(const std::vector<int>& peers, const std::string& cause);
  // What a peer that failed has said; "" if none has.
  [[nodiscard]] std::string read_notice();
  void tell_others_and_close();
  [[nodiscard]] std::shared_ptr<Links> links() const;  // throws if the group has failed
  [[nodiscard]] Transfer::Deadline deadline() const { return std::chrono::steady_clock::now() + timeout_; }

  const GroupName group_;
  const std::chrono::milliseconds timeout_;
  mutable std::mutex mutex_;
  std::shared_ptr<Links> links_;
  std::set<Transfer*> waits_;
  std::string failure_, notice_;
  std::mutex notices_mutex_;
  std::vector<Notice> notices_;  // what each peer would say if it failed
  Lane closing_;
};

}  // namespace weft::comm
