// One call on a communicator as data: what the back ends share of checking arguments and of comparing the members'
// calls.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "comm/communicator.h"

namespace weft::comm {

enum class Operation : uint8_t {
  kAllReduce,
  kReduceScatter,
  kAllGather,
  kAllToAll,
  kBroadcast,
  kSend,
  kReceive,
  kBarrier,
};
[[nodiscard]] std::string_view text(Operation operation);

// What a member says of its call, to be compared with the others'. Fixed size: it also travels between processes.
struct CallCard {
  Operation operation = Operation::kBarrier;
  mesh::ElementType type = mesh::ElementType::kUInt8;
  Reduction reduction = Reduction::kSum;
  int32_t root = 0;    // of a broadcast
  int64_t count = 0;   // elements, of all members' parts together; of an all-to-all 0
  uint64_t parts = 0;  // a hash of how the count is cut into the members' parts
  char what[96] = {};  // cut off if longer
  // "all_reduce (sum) of 12 f32 \"gradient of layer 3\""
  [[nodiscard]] std::string text() const;
};

struct Call {
  CallCard card;
  Source source = {};
  Target target = {};
  std::vector<int64_t> send_counts = {};     // elements of the source for each member (reduce-scatter, all-to-all)
  std::vector<int64_t> receive_counts = {};  // elements of the target from each member (all-gather, all-to-all)
  int peer = -1;                             // of send and receive
};

// A group as messages name it.
struct GroupName {
  std::string name;
  std::vector<int> ranks;  // of the world, ascending
  int rank = 0;            // the own place among them
  [[nodiscard]] int size() const { return static_cast<int>(ranks.size()); }
};

// "" if the members' calls of a collective match; else the first two that differ, each with its rank of the world.
[[nodiscard]] std::string mismatch(const GroupName& group, std::span<const CallCard> cards);
// The same of what a member sends to another: a part of an all-to-all, or a send and its receive.
[[nodiscard]] std::string part_mismatch(const GroupName& group, int from, const CallCard& sent, int64_t sent_count,
                                        int to, const CallCard& received, int64_t received_count);

// A communicator that turns each call into a Call, checks its arguments (CommunicationError: counts that do not fit the
// memory, a root or peer outside the group, a type that has no such reduction) and hands it to start().
class CheckedCommunicator : public Communicator {
 public:
  explicit CheckedCommunicator(GroupName group) : group_(std::move(group)) {}

  [[nodiscard]] int rank() const override { return group_.rank; }
  [[nodiscard]] int size() const override { return group_.size(); }
  [[nodiscard]] const std::string& name() const override { return group_.name; }

  Handle all_reduce(Target numbers, Reduction reduction, std::string_view what) final;
  Handle reduce_scatter(Source numbers, Target own, std::span<const int64_t> counts, Reduction reduction,
                        std::string_view what) final;
  Handle all_gather(Source own, Target all, std::span<const int64_t> counts, std::string_view what) final;
  Handle all_to_all(Source numbers, std::span<const int64_t> send_counts, Target received,
                    std::span<const int64_t> receive_counts, std::string_view what) final;
  Handle broadcast(Target numbers, int root, std::string_view what) final;
  Handle send(Source numbers, int to, std::string_view what) final;
  Handle receive(Target numbers, int from, std::string_view what) final;
  Handle barrier(std::string_view what) final;

 protected:
  virtual Handle start(Call call) = 0;
  [[nodiscard]] const GroupName& group() const { return group_; }

 private:
  GroupName group_;
};

// Where each member's part begins: the sums of the counts before it, and the whole behind the last.
[[nodiscard]] std::vector<int64_t> part_begins(std::span<const int64_t> counts);

// "ranks 1, 3" or "rank 1".
[[nodiscard]] std::string ranks_text(std::span<const int> ranks);

// Throws CommunicationError unless the ranks are ascending, inside a world of this size, and hold `rank`; gives the
// group as this rank sees it.
[[nodiscard]] GroupName checked_group(std::span<const int> ranks, const std::string& name, int rank, int world_size);

}  // namespace weft::comm
