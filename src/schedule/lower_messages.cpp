#include "schedule/lower_messages.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace weft::schedule {
namespace {

constexpr int32_t stage_of_reader(int32_t maker_stage, Direction direction) {
  return direction == Direction::kForward ? maker_stage + 1 : maker_stage - 1;
}

// A message, named by its receiver's end.
using MessageKey = std::tuple<Direction, int32_t, int32_t, int32_t>;  // direction, reading stage, micro-batch, value

MessageKey key_of(const Action& action) {
  const int32_t stage = action.op == Op::kSend ? stage_of_reader(action.stage, action.direction) : action.stage;
  return {action.direction, stage, action.micro_batch, action.value};
}

struct MessagePlaces {
  size_t begun = 0;     // index of its Send in the sender's list
  size_t received = 0;  // index of the wait for it in the receiver's list
};

Action wait_for(Action send) {
  send.part = Part::kWait;
  return send;
}

}  // namespace

MessageLowering::MessageLowering(const model::ModelDescription& model, std::span<const Stage> stages)
    : stages_(stages), crossing_(stages.size()) {
  std::vector<int32_t> maker(model.values.size(), -1), last_reader(model.values.size(), -1);
  for (size_t index = 0; index < model.segments.size(); ++index) {
    const auto segment = static_cast<int32_t>(index);
    for (const int value : model.segments[index].outputs) maker[static_cast<size_t>(value)] = segment;
    for (const int value : model.segments[index].inputs) last_reader[static_cast<size_t>(value)] = segment;
  }
  for (size_t stage = 0; stage < stages.size(); ++stage) {
    const int32_t border = stages[stage].first_segment;
    for (size_t value = 0; value < maker.size(); ++value) {
      if (maker[value] < border && last_reader[value] >= border) crossing_[stage].push_back(static_cast<int>(value));
    }
  }
}

void MessageLowering::begin(const Action& action, std::vector<Action>& lowered) const {
  // Over the border in front of the stage that lies behind.
  const bool behind = (action.op == Op::kSend) == (action.direction == Direction::kForward);
  for (const int value : crossing(behind ? action.stage + 1 : action.stage)) {
    lowered.push_back(action);
    lowered.back().part = Part::kStart;
    lowered.back().value = value;
  }
}

void MessageLowering::wait_for_inputs(const Action& action, std::vector<Action>& lowered) const {
  const bool forward = action.op == Op::kForward;
  const int32_t other = forward ? action.stage - 1 : action.stage + 1;
  if (other < 0 || other >= static_cast<int64_t>(stages_.size())) return;
  const int32_t peer = stages_[static_cast<size_t>(other)].role;
  if (peer == stages_[static_cast<size_t>(action.stage)].role) return;
  for (const int value : crossing(forward ? action.stage : other)) {
    Action& wait = lowered.emplace_back();
    wait.op = Op::kReceive;
    wait.part = Part::kWait;
    wait.direction = forward ? Direction::kForward : Direction::kBackward;
    wait.stream = forward ? Stream::kPipelineForward : Stream::kPipelineBackward;
    wait.stage = action.stage;
    wait.micro_batch = action.micro_batch;
    wait.value = value;
    wait.peer = peer;
  }
}

void add_send_waits(Schedule& lowered) {
  std::map<MessageKey, MessagePlaces> places;
  for (const RoleSchedule& role : lowered.roles) {
    for (size_t index = 0; index < role.actions.size(); ++index) {
      const Action& action = role.actions[index];
      if (action.op == Op::kSend) places[key_of(action)].begun = index;
      if (action.op == Op::kReceive && action.part == Part::kWait) places[key_of(action)].received = index;
    }
  }
  for (RoleSchedule& role : lowered.roles) {
    std::vector<Action> result, open;  // sends that were not waited for yet
    for (const Action& action : role.actions) {
      if (action.op == Op::kReduce || action.op == Op::kStep) {
        for (const Action& send : open) result.push_back(wait_for(send));
        open.clear();
      }
      result.push_back(action);
      if (action.op == Op::kSend) open.push_back(action);
      if (action.op != Op::kReceive || action.part != Part::kWait) continue;
      const size_t begun = places[key_of(action)].begun;
      std::erase_if(open, [&](const Action& send) {
        if (send.peer != action.peer || places[key_of(send)].received >= begun) return false;
        result.push_back(wait_for(send));
        return true;
      });
    }
    role.actions = std::move(result);
  }
}

}  // namespace weft::schedule
