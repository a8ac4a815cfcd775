#include "schedule/schedule.h"

#include <map>
#include <utility>

#include "base/check.h"

namespace weft::schedule {
namespace {

Action compute(Op op, int32_t stage, int32_t micro_batch) {
  Action action;
  action.op = op;
  action.stage = stage;
  action.micro_batch = micro_batch;
  return action;
}

Action reduce(Purpose purpose) {
  Action action;
  action.op = Op::kReduce;
  action.purpose = purpose;
  return action;
}

Schedule one_stage(const model::ModelDescription& model, int32_t micro_batches) {
  WEFT_CHECK(micro_batches > 0);
  Schedule schedule;
  schedule.stages = {{0, static_cast<int32_t>(model.segments.size()), 0}};
  schedule.roles.resize(1);
  schedule.micro_batches = micro_batches;
  return schedule;
}

bool on_segments(Op op) {
  return op == Op::kForward || op == Op::kBackward || op == Op::kBackwardInput || op == Op::kBackwardWeight;
}

// Values freed behind the action at each index: those that it is the last forward to read, or to write where none
// reads.
std::multimap<size_t, int32_t> last_uses(const std::vector<Action>& actions, const model::ModelDescription& model) {
  std::map<std::pair<int32_t, int32_t>, size_t> last;  // (micro-batch, value) -> index of the action
  for (size_t index = 0; index < actions.size(); ++index) {
    const Action& action = actions[index];
    if (action.op != Op::kForward) continue;
    const model::SegmentDescription& segment = model.segments[static_cast<size_t>(action.segment)];
    for (const int value : segment.inputs) last[{action.micro_batch, value}] = index;
    for (const int value : segment.outputs) last[{action.micro_batch, value}] = index;
  }
  std::multimap<size_t, int32_t> freed;
  for (const auto& [key, index] : last) freed.emplace(index, key.second);
  return freed;
}

std::vector<Action> lower(const std::vector<Action>& actions, const std::vector<Stage>& stages) {
  std::vector<Action> lowered;
  for (const Action& action : actions) {
    if (!on_segments(action.op)) {
      lowered.push_back(action);
      continue;
    }
    const Stage& stage = stages[static_cast<size_t>(action.stage)];
    for (int32_t i = 0; i < stage.segment_count; ++i) {
      const int32_t offset = action.op == Op::kForward ? i : stage.segment_count - 1 - i;
      lowered.push_back(action);
      lowered.back().segment = stage.first_segment + offset;
    }
  }
  return lowered;
}

}  // namespace

Schedule accumulate(const model::ModelDescription& model, int32_t micro_batches) {
  Schedule schedule = one_stage(model, micro_batches);
  std::vector<Action>& actions = schedule.roles[0].actions;
  for (int32_t micro_batch = 0; micro_batch < micro_batches; ++micro_batch) {
    actions.push_back(compute(Op::kForward, 0, micro_batch));
    actions.push_back(compute(Op::kBackward, 0, micro_batch));
  }
  actions.push_back(reduce(Purpose::kLoss));
  actions.push_back(reduce(Purpose::kNorm));
  actions.emplace_back().op = Op::kStep;
  return schedule;
}

Schedule evaluate(const model::ModelDescription& model, int32_t micro_batches) {
  Schedule schedule = one_stage(model, micro_batches);
  std::vector<Action>& actions = schedule.roles[0].actions;
  for (int32_t micro_batch = 0; micro_batch < micro_batches; ++micro_batch) {
    actions.push_back(compute(Op::kForward, 0, micro_batch));
  }
  actions.push_back(reduce(Purpose::kLoss));
  return schedule;
}

Schedule split_backward(const Schedule& schedule) {
  Schedule split = schedule;
  for (RoleSchedule& role : split.roles) {
    WEFT_CHECK(role.dependencies.empty());
    std::vector<Action> actions;
    for (const Action& action : role.actions) {
      actions.push_back(action);
      if (action.op != Op::kBackward) continue;
      actions.back().op = Op::kBackwardInput;
      actions.push_back(action);
      actions.back().op = Op::kBackwardWeight;
    }
    role.actions = std::move(actions);
  }
  return split;
}

Schedule expand(const Schedule& schedule, const model::ModelDescription& model) {
  Schedule expanded = schedule;
  for (RoleSchedule& role : expanded.roles) {
    // Every action of today's generators stands on the compute stream, where program order is all there is.
    WEFT_CHECK(role.dependencies.empty());
    const std::vector<Action> lowered = lower(role.actions, schedule.stages);
    const std::multimap<size_t, int32_t> freed = last_uses(lowered, model);
    role.actions.clear();
    for (size_t index = 0; index < lowered.size(); ++index) {
      role.actions.push_back(lowered[index]);
      const auto [first, last] = freed.equal_range(index);
      for (auto entry = first; entry != last; ++entry) {
        Action free = compute(Op::kFree, lowered[index].stage, lowered[index].micro_batch);
        free.value = entry->second;
        role.actions.push_back(free);
      }
    }
  }
  return expanded;
}

}  // namespace weft::schedule
