// gpipe, 1f1b, interleaved and bfs: one order of micro-batches and chunks, with more or fewer forwards ahead.
#include <algorithm>

#include "schedule/generators.h"

namespace weft::schedule {
namespace {

// Micro-batches in groups that pass through a chunk in a row: `larger` groups of `size`, then groups of `rest`.
struct Groups {
  int32_t size = 0;
  int32_t larger = 0;
  int32_t rest = 0;
};

// The order of Megatron's schedule table: group by group; within a group chunk by chunk, within a chunk the
// micro-batches ascending.
class TableCursor {
 public:
  TableCursor(int32_t first, Groups groups, int32_t chunks)
      : groups_(groups), chunks_(chunks), group_(first), micro_batch_(first) {}

  [[nodiscard]] int32_t chunk() const { return chunk_; }
  [[nodiscard]] int32_t micro_batch() const { return micro_batch_; }

  void advance() {
    const int32_t group_end = group_ + (groups_.larger > 0 ? groups_.size : groups_.rest);
    if (++micro_batch_ < group_end) return;
    micro_batch_ = group_;
    if (++chunk_ < chunks_) return;
    chunk_ = 0;
    group_ = micro_batch_ = group_end;
    if (groups_.larger > 0) --groups_.larger;
  }

 private:
  Groups groups_;
  int32_t chunks_, group_, micro_batch_;
  int32_t chunk_ = 0;
};

// A last group of less than one micro-batch a role would hang where there are several chunks: what is left is spread
// over the groups before it.
Groups groups_of(int32_t micro_batches, int32_t run, int32_t roles) {
  const int32_t count = micro_batches / run, left = micro_batches % run;
  if (left == 0 || left >= roles) return {run, count, left};
  const int32_t size = micro_batches / count, larger = micro_batches % count;
  return larger == 0 ? Groups{size, count, 0} : Groups{size + 1, larger, size};
}

struct Round {
  int32_t first = 0;
  int32_t count = 0;  // micro-batches
  Groups groups;
  int64_t ahead = 0;  // forwards before the first pair of a forward and a backward
};

void append_round(const Round& round, int32_t role, const GenerateOptions& options, std::vector<Action>& actions) {
  TableCursor forward(round.first, round.groups, options.chunks);
  TableCursor backward = forward;
  const int64_t total = int64_t{round.count} * options.chunks;
  const int64_t ahead = std::min(round.ahead, total);
  const auto add_forward = [&] {
    actions.push_back(computation(Op::kForward, forward.chunk() * options.roles + role, forward.micro_batch()));
    forward.advance();
  };
  const auto add_backward = [&] {
    const int32_t chunk = options.chunks - 1 - backward.chunk();
    actions.push_back(computation(Op::kBackward, chunk * options.roles + role, backward.micro_batch()));
    backward.advance();
  };
  for (int64_t i = 0; i < ahead; ++i) add_forward();
  for (int64_t i = ahead; i < total; ++i) {
    add_forward();
    add_backward();
  }
  for (int64_t i = 0; i < ahead; ++i) add_backward();
}

// Enough for the first micro-batch to come back to this role: `hops` more for each role between it and the last.
int64_t forwards_ahead(const GenerateOptions& options, int32_t role, int32_t group, int32_t hops) {
  return int64_t{options.chunks - 1} * group + int64_t{hops} * (options.roles - 1 - role);
}

}  // namespace

void fill_looped(Kind kind, const GenerateOptions& options, Schedule& schedule) {
  const int32_t micro_batches = options.micro_batches;
  for (int32_t role = 0; role < options.roles; ++role) {
    std::vector<Action>& actions = schedule.roles[static_cast<size_t>(role)].actions;
    actions.reserve(static_cast<size_t>(micro_batches) * static_cast<size_t>(options.chunks) * 2);
    if (kind == Kind::k1f1b || kind == Kind::kInterleaved) {
      const int32_t run = std::min(options.run > 0 ? options.run : options.roles, micro_batches);
      const Groups groups = groups_of(micro_batches, run, options.roles);
      const int64_t ahead = forwards_ahead(options, role, groups.size, kind == Kind::k1f1b ? 1 : 2);
      append_round({0, micro_batches, groups, ahead}, role, options, actions);
      continue;
    }
    int32_t first = 0;
    for (int32_t round = 0; round < options.rounds; ++round) {
      const int32_t count = (micro_batches - first) / (options.rounds - round);
      append_round({first, count, {count, 1, 0}, int64_t{count} * options.chunks}, role, options, actions);
      first += count;
    }
  }
}

}  // namespace weft::schedule
