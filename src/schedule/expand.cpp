#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "base/check.h"
#include "model/buckets.h"
#include "schedule/lower_messages.h"
#include "schedule/roles.h"
#include "schedule/schedule.h"

namespace weft::schedule {
namespace {

using Actions = std::vector<Action>;

bool is_backward(Op op) { return op == Op::kBackward || op == Op::kBackwardInput || op == Op::kBackwardWeight; }

bool runs_forward(Op op) { return op == Op::kForward || op == Op::kRecompute; }

bool on_segments(Op op) { return runs_forward(op) || is_backward(op); }

bool moves_shards(Op op) { return op == Op::kUnshard || op == Op::kReshard || op == Op::kReduceGradient; }

bool has_backward(const Schedule& schedule) {
  for (const RoleSchedule& role : schedule.roles) {
    for (const Action& action : role.actions) {
      if (is_backward(action.op)) return true;
    }
  }
  return false;
}

Action redistribute(const Action& neighbour, int value, Direction direction) {
  Action action;
  action.op = Op::kRedistribute;
  action.direction = direction;
  action.stage = neighbour.stage;
  action.micro_batch = neighbour.micro_batch;
  action.value = value;
  return action;
}

Action on_bucket(Op op, int bucket) {
  Action action;
  action.op = op;
  action.bucket = bucket;
  return action;
}

Action reduce(Purpose purpose) {
  Action action;
  action.op = Op::kReduce;
  action.purpose = purpose;
  return action;
}

// One role of a schedule.
class Expansion {
 public:
  Expansion(const Schedule& schedule, const model::ModelDescription& model, const Layout& layout, int32_t role)
      : stages_(schedule.stages),
        model_(model),
        layout_(layout),
        role_(role),
        trains_(has_backward(schedule)),
        values_(value_layouts(model, layout)),
        buckets_(model::parameter_buckets(model)),
        roles_(bucket_roles(model, schedule.stages)),
        reduced_(reduced_buckets(model, layout)) {}

  [[nodiscard]] Actions run(const Actions& stage_level) const {
    Actions actions = lower(stage_level);
    actions = redistribute_values(actions);
    actions = free_values(actions);
    if (std::ranges::none_of(stage_level, [](const Action& action) { return moves_shards(action.op); })) {
      actions = reduce_gradients(actions);
      actions = unshard(actions);
    }
    add_end(actions);
    return actions;
  }

 private:
  // Forward and Backward of a stage become those of its segments, Recompute of its layers alone: in front of them and
  // behind there is nothing worth it. What comes from another role is waited for in front.
  [[nodiscard]] Actions lower(const Actions& actions) const {
    const MessageLowering messages(model_, stages_);
    ShardState shards(buckets_.count);
    std::set<std::pair<int32_t, int32_t>> recomputed;  // stage, micro-batch
    for (const Action& action : actions) {
      if (action.op == Op::kRecompute) recomputed.insert({action.stage, action.micro_batch});
    }
    Actions lowered;
    for (const Action& action : actions) {
      if (moves_shards(action.op)) {
        move_shards(action, shards, lowered);
        continue;
      }
      if (action.op == Op::kSend || action.op == Op::kReceive) {
        // add_send_waits() adds waits of its own.
        if (action.part != Part::kWait) messages.begin(action, lowered);
        continue;
      }
      WEFT_CHECK(on_segments(action.op));
      if (action.op != Op::kBackwardWeight && action.op != Op::kRecompute) messages.wait_for_inputs(action, lowered);
      const Stage& stage = stages_[static_cast<size_t>(action.stage)];
      for (int32_t i = 0; i < stage.segment_count; ++i) {
        const int32_t offset = runs_forward(action.op) ? i : stage.segment_count - 1 - i;
        const bool in_layer = model_.segments[static_cast<size_t>(stage.first_segment + offset)].layer >= 0;
        if (action.op == Op::kRecompute && !in_layer) continue;
        lowered.push_back(action);
        lowered.back().paired = false;
        lowered.back().segment = stage.first_segment + offset;
        lowered.back().light =
            action.op == Op::kForward && in_layer && recomputed.contains({action.stage, action.micro_batch});
        if (action.op != Op::kBackward && action.op != Op::kBackwardWeight) continue;
        for (const int bucket : buckets_of(lowered.back())) shards.unreduced[static_cast<size_t>(bucket)] = true;
      }
    }
    return lowered;
  }

  // By bucket, while a list is lowered whose stage level says when stages are gathered and reduced.
  struct ShardState {
    explicit ShardState(int buckets)
        : users(static_cast<size_t>(buckets)), unreduced(static_cast<size_t>(buckets), false) {}
    std::vector<int> users;       // whole stages that use it
    std::vector<bool> unreduced;  // has gradients that were not reduced
  };

  // What a stage asks for, asked for each of its buckets. Stages of a role may share one (tied weights).
  void move_shards(const Action& action, ShardState& shards, Actions& lowered) const {
    const Stage& stage = stages_[static_cast<size_t>(action.stage)];
    std::set<int> buckets;
    for (int32_t segment = stage.first_segment; segment < stage.first_segment + stage.segment_count; ++segment) {
      const std::vector<int>& used = buckets_.of_segment[static_cast<size_t>(segment)];
      buckets.insert(used.begin(), used.end());
    }
    for (const int bucket : buckets) {
      const auto index = static_cast<size_t>(bucket);
      bool asked = false;
      if (action.op == Op::kUnshard) asked = shards.users[index]++ == 0;
      if (action.op == Op::kReshard) asked = --shards.users[index] == 0;
      if (action.op == Op::kReduceGradient && reduced_[index]) {
        asked = shards.unreduced[index];
        shards.unreduced[index] = false;
      }
      if (asked) lowered.push_back(on_bucket(action.op, bucket));
    }
  }

  [[nodiscard]] Actions redistribute_values(const Actions& actions) const {
    Actions result;
    for (const Action& action : actions) {
      const bool forward = runs_forward(action.op);
      if (action.op == Op::kBackward || action.op == Op::kBackwardInput) add_redistributions(action, result);
      result.push_back(action);
      if (forward) add_redistributions(action, result);
    }
    return result;
  }

  // Behind the last forward that reads a value, the last message that takes it along, or what writes it where none
  // does. A value that is recomputed lives twice.
  [[nodiscard]] Actions free_values(const Actions& actions) const {
    std::map<std::pair<int32_t, int32_t>, size_t> last;  // (micro-batch, value) -> index of the action
    std::multimap<size_t, int32_t> freed;
    for (size_t index = 0; index < actions.size(); ++index) {
      const Action& action = actions[index];
      const bool moves = action.op == Op::kRedistribute || action.op == Op::kSend ||
                         (action.op == Op::kReceive && action.part == Part::kWait);
      if (moves && action.direction == Direction::kForward) last[{action.micro_batch, action.value}] = index;
      if (!runs_forward(action.op)) continue;
      const model::SegmentDescription& segment = model_.segments[static_cast<size_t>(action.segment)];
      for (const int value : segment.inputs) last[{action.micro_batch, value}] = index;
      for (const int value : segment.outputs) {
        const auto [entry, is_new] = last.emplace(std::pair(action.micro_batch, value), index);
        if (!is_new) freed.emplace(std::exchange(entry->second, index), value);
      }
    }
    for (const auto& [key, index] : last) freed.emplace(index, key.second);
    Actions result;
    for (size_t index = 0; index < actions.size(); ++index) {
      result.push_back(actions[index]);
      const auto [first, end] = freed.equal_range(index);
      for (auto entry = first; entry != end; ++entry) {
        Action free;
        free.op = Op::kFree;
        free.stage = actions[index].stage;
        free.micro_batch = actions[index].micro_batch;
        free.value = entry->second;
        result.push_back(free);
      }
    }
    return result;
  }

  // Behind the last backward that adds to a bucket: of the step, or of each micro-batch where whole gradients are not
  // kept.
  [[nodiscard]] Actions reduce_gradients(const Actions& actions) const {
    std::map<std::pair<int32_t, int>, size_t> last;  // (micro-batch or -1, bucket) -> index of the action
    for (size_t index = 0; index < actions.size(); ++index) {
      if (!is_backward(actions[index].op)) continue;
      const int32_t micro_batch = layout_.zero >= 2 ? actions[index].micro_batch : -1;
      for (const int bucket : buckets_of(actions[index])) {
        if (reduced_[static_cast<size_t>(bucket)]) last[{micro_batch, bucket}] = index;
      }
    }
    std::multimap<size_t, int> reduced;  // index -> bucket
    for (const auto& [key, index] : last) reduced.emplace(index, key.second);
    Actions result;
    for (size_t index = 0; index < actions.size(); ++index) {
      result.push_back(actions[index]);
      const auto [first, end] = reduced.equal_range(index);
      for (auto entry = first; entry != end; ++entry) {
        result.push_back(on_bucket(Op::kReduceGradient, entry->second));
      }
    }
    return result;
  }

  // A bucket is whole from its first use on until another one needs its place: the one whose last use lies furthest
  // back.
  [[nodiscard]] Actions unshard(const Actions& actions) const {
    if (layout_.shards() == 1 || layout_.zero < 3) return actions;
    Actions result;
    std::vector<int> whole;  // the latest use last
    for (const Action& action : actions) {
      const std::vector<int> needed = on_segments(action.op) ? buckets_of(action) : std::vector<int>{};
      for (const int bucket : needed) {
        const auto held = std::ranges::find(whole, bucket);
        if (held != whole.end()) {
          whole.erase(held);
        } else {
          make_room(whole, needed, result);
          result.push_back(on_bucket(Op::kUnshard, bucket));
        }
        whole.push_back(bucket);
      }
      result.push_back(action);
    }
    for (const int bucket : whole) result.push_back(on_bucket(Op::kReshard, bucket));
    return result;
  }

  // What ends a step, or an evaluation.
  void add_end(Actions& actions) const {
    actions.push_back(reduce(Purpose::kLoss));
    if (!trains_) return;
    move_borrowed(Direction::kBackward, actions);
    actions.push_back(reduce(Purpose::kNorm));
    actions.emplace_back().op = Op::kStep;
    move_borrowed(Direction::kForward, actions);
    if (layout_.shards() == 1 || layout_.zero >= 3) return;
    for (int bucket = 0; bucket < buckets_.count; ++bucket) {
      if (roles_.holds(role_, bucket)) actions.push_back(on_bucket(Op::kUnshard, bucket));
    }
  }

  // Gradients of borrowed buckets to their owners, or new values back.
  void move_borrowed(Direction direction, Actions& actions) const {
    for (int bucket = 0; bucket < buckets_.count; ++bucket) {
      const int32_t owner = roles_.owner[static_cast<size_t>(bucket)];
      for (const int32_t borrower : roles_.borrowers[static_cast<size_t>(bucket)]) {
        if (role_ != owner && role_ != borrower) continue;
        Action action = reduce(Purpose::kTied);
        action.direction = direction;
        action.bucket = bucket;
        action.peer = role_ == owner ? borrower : owner;
        actions.push_back(action);
      }
    }
  }

  static std::vector<bool> reduced_buckets(const model::ModelDescription& model, const Layout& layout) {
    const model::ParameterBuckets buckets = model::parameter_buckets(model);
    const bool all = layout.batch_ranks() * layout.context > 1;
    std::vector<bool> reduced(static_cast<size_t>(buckets.count), all);
    const std::vector<bool> partial = partial_over_tensor(model, layout);
    for (size_t index = 0; index < partial.size(); ++index) {
      if (partial[index]) reduced[static_cast<size_t>(buckets.of_parameter[index])] = true;
    }
    return reduced;
  }

  [[nodiscard]] const std::vector<int>& buckets_of(const Action& action) const {
    return buckets_.of_segment[static_cast<size_t>(action.segment)];
  }

  void add_redistributions(const Action& action, Actions& result) const {
    const bool forward = runs_forward(action.op);
    for (const int value : model_.segments[static_cast<size_t>(action.segment)].outputs) {
      const ValueLayout& layout = values_[static_cast<size_t>(value)];
      if (forward ? layout.moves_forward() : layout.moves_backward()) {
        result.push_back(redistribute(action, value, forward ? Direction::kForward : Direction::kBackward));
      }
    }
  }

  void make_room(std::vector<int>& whole, const std::vector<int>& needed, Actions& result) const {
    while (static_cast<int>(whole.size()) >= std::max(layout_.whole_buckets, 1)) {
      const auto is_spare = [&](int bucket) { return std::ranges::find(needed, bucket) == needed.end(); };
      const auto oldest = std::ranges::find_if(whole, is_spare);
      if (oldest == whole.end()) return;  // one segment needs more than the bound
      result.push_back(on_bucket(Op::kReshard, *oldest));
      whole.erase(oldest);
    }
  }

  const std::vector<Stage>& stages_;
  const model::ModelDescription& model_;
  const Layout& layout_;
  int32_t role_;
  bool trains_;
  std::vector<ValueLayout> values_;
  model::ParameterBuckets buckets_;
  BucketRoles roles_;
  std::vector<bool> reduced_;
};

}  // namespace

Schedule expand(const Schedule& schedule, const model::ModelDescription& model, const Layout& layout) {
  Schedule expanded = schedule;
  for (size_t role = 0; role < schedule.roles.size(); ++role) {
    const Expansion expansion(schedule, model, layout, static_cast<int32_t>(role));
    expanded.roles[role].actions = expansion.run(schedule.roles[role].actions);
  }
  add_send_waits(expanded);
  return expanded;
}

}  // namespace weft::schedule
