// Messages between the members of a group, each a process of its own: what a transport gives, and linked_group.h makes
// collectives of.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>

#include "comm/communicator.h"

namespace weft::comm {

// A message under way. Once it is destroyed nobody touches its memory.
class Transfer {
 public:
  using Deadline = std::chrono::steady_clock::time_point;
  enum class Outcome { kDone, kLate, kCancelled };

  virtual ~Transfer() = default;
  // Of one that has come, kDone even where the deadline is past. After kLate it may be waited for again.
  // CommunicationError, with what is known of the cause: the connection to the peer broke.
  virtual Outcome wait(Deadline deadline) = 0;
  // Ends the wait, and later ones, with kCancelled. From any thread.
  virtual void cancel() = 0;
};

// The own connections to the other members. Methods may be called from any thread and do not wait. Messages from one
// member to another on one channel arrive in order; the two must name the same size, and nothing
// is moved before the receiver has. Destroying the links, and then the
// last transfer, breaks the connections, so that the peers' transfers fail.
class Links {
 public:
  virtual ~Links() = default;
  virtual std::unique_ptr<Transfer> send(int to, int channel, const void* data, int64_t bytes) = 0;
  virtual std::unique_ptr<Transfer> receive(int from, int channel, void* data, int64_t bytes) = 0;
};

}  // namespace weft::comm
