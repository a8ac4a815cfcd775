#include "schedule/passes.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "schedule/computations.h"
#include "schedule/rendezvous.h"
#include "schedule/timeline.h"

namespace weft::schedule {
namespace {

bool is_whole_input(const Action& action, const Action& next) {
  return action.op == Op::kBackwardInput && next.op == Op::kBackwardWeight && action.stage == next.stage &&
         action.micro_batch == next.micro_batch && action.slice == next.slice;
}

// The forwards or the backwards of a list, in their order.
std::vector<Action> only(const std::vector<Action>& actions, Op op) {
  std::vector<Action> result;
  std::ranges::copy_if(actions, std::back_inserter(result), [op](const Action& action) { return action.op == op; });
  return result;
}

// Forwards in front of the first of the pairs (forward, backward) that a list of forwards and backwards consists of.
size_t forwards_ahead(const std::vector<Action>& actions, size_t forwards) {
  const auto first = std::ranges::find(actions, Op::kBackward, &Action::op);
  const size_t before = static_cast<size_t>(first - actions.begin());
  return before == forwards || before == 0 ? before : before - 1;
}

}  // namespace

Schedule split_backward(const Schedule& schedule) {
  Schedule split = schedule;
  for (RoleSchedule& role : split.roles) {
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

Schedule merge_backward(const Schedule& schedule) {
  Schedule merged = schedule;
  for (RoleSchedule& role : merged.roles) {
    std::vector<Action> actions;
    actions.reserve(role.actions.size());
    for (const Action& action : role.actions) {
      if (!actions.empty() && is_whole_input(actions.back(), action)) {
        actions.back().op = Op::kBackward;
      } else {
        actions.push_back(action);
      }
    }
    role.actions = std::move(actions);
  }
  return merged;
}

Schedule prune_frozen(const Schedule& schedule) {
  const int32_t first_trained =
      static_cast<int32_t>(std::ranges::find(schedule.stages, true, &Stage::trains) - schedule.stages.begin());
  const auto is_needed = [&](const Action& action) {
    const bool trains = action.stage >= 0 && schedule.stages[static_cast<size_t>(action.stage)].trains;
    switch (action.op) {
      case Op::kBackwardWeight:
      case Op::kReduceGradient:
        return trains;
      case Op::kBackward:
      case Op::kBackwardInput:
      case Op::kRecompute:
        return action.stage >= first_trained;
      case Op::kSend:
        return action.direction == Direction::kForward || action.stage > first_trained;
      case Op::kReceive:
        return action.direction == Direction::kForward || action.stage >= first_trained;
      default:
        return true;
    }
  };
  Schedule pruned = schedule;
  for (RoleSchedule& role : pruned.roles) {
    std::vector<Action> actions;
    actions.reserve(role.actions.size());
    for (const Action& action : role.actions) {
      if (!is_needed(action)) {
        if (!actions.empty()) actions.back().paired = false;
        continue;
      }
      actions.push_back(action);
      if (action.op == Op::kBackward && !schedule.stages[static_cast<size_t>(action.stage)].trains) {
        actions.back().op = Op::kBackwardInput;
      }
    }
    role.actions = std::move(actions);
  }
  return pruned;
}

Schedule forward_only(const Schedule& schedule) {
  Schedule forward = schedule;
  for (RoleSchedule& role : forward.roles) {
    std::erase_if(role.actions, [](const Action& action) {
      return action.direction == Direction::kBackward || (is_computation(action.op) && action.op != Op::kForward) ||
             action.op == Op::kReduceGradient || action.op == Op::kStep ||
             (action.op == Op::kReduce && action.purpose != Purpose::kLoss);
    });
    for (Action& action : role.actions) action.paired = false;
  }
  return forward;
}

Schedule recompute(const Schedule& schedule, const std::vector<bool>& stages) {
  if (stages.size() != schedule.stages.size()) {
    throw InputError(fmt::format("recompute of {} stages, the schedule has {}", stages.size(), schedule.stages.size()));
  }
  Schedule result = schedule;
  for (RoleSchedule& role : result.roles) {
    std::vector<Action> actions;
    for (size_t first = 0; first < role.actions.size();) {
      const size_t end = first + unit_length(role.actions, first);
      for (size_t index = first; index < end; ++index) {
        const Action& action = role.actions[index];
        if (!makes_gradient(action.op) || !stages[static_cast<size_t>(action.stage)]) continue;
        actions.push_back(action);
        actions.back().op = Op::kRecompute;
        actions.back().paired = false;
      }
      for (; first < end; ++first) actions.push_back(role.actions[first]);
    }
    role.actions = std::move(actions);
  }
  return result;
}

Schedule defer_forwards(const Schedule& schedule) {
  Schedule deferred = schedule;
  const size_t roles = schedule.roles.size();
  size_t ahead_of_last = 0;
  for (size_t role = roles; role-- > 0;) {
    const std::vector<Action>& actions = schedule.roles[role].actions;
    const std::vector<Action> forwards = only(actions, Op::kForward), backwards = only(actions, Op::kBackward);
    if (forwards.size() + backwards.size() != actions.size() || forwards.size() != backwards.size()) {
      throw InputError(fmt::format("defer_forwards: role {} has more than forwards and as many whole backwards", role));
    }
    const size_t now = forwards_ahead(actions, forwards.size());
    if (role + 1 == roles) ahead_of_last = now;
    const size_t ahead = std::min(now, ahead_of_last + roles - 1 - role);
    std::vector<Action>& result = deferred.roles[role].actions;
    result.assign(forwards.begin(), forwards.begin() + static_cast<ptrdiff_t>(ahead));
    for (size_t index = 0; index < backwards.size(); ++index) {
      if (ahead + index < forwards.size()) result.push_back(forwards[ahead + index]);
      result.push_back(backwards[index]);
    }
  }
  // Forward 1 and backward 2, the times at which the step must not get longer.
  const Durations unit = durations({}, {}, schedule.stages.size(), schedule.stages.size() / roles);
  const std::optional<Timeline> before = timeline(schedule, unit), after = timeline(deferred, unit);
  return after && (!before || after->makespan <= before->makespan) ? deferred : schedule;
}

Schedule limit_run_ahead(const Schedule& schedule, int32_t messages) {
  if (messages < 1) throw InputError(fmt::format("{} messages on their way, expected at least 1", messages));
  Schedule limited = schedule;
  for (RoleSchedule& role : limited.roles) {
    std::vector<Action> actions, sends;
    size_t waited = 0;
    const auto wait = [&] {
      actions.push_back(sends[waited++]);
      actions.back().part = Part::kWait;
    };
    for (const Action& action : role.actions) {
      if (action.op == Op::kSend) {
        if (sends.size() - waited == static_cast<size_t>(messages)) wait();
        sends.push_back(action);
      }
      actions.push_back(action);
    }
    while (waited < sends.size()) wait();
    role.actions = std::move(actions);
  }
  if (!run_rendezvous(limited)) {
    throw InputError(fmt::format("with {} messages on their way a role can wait for itself", messages));
  }
  return limited;
}

}  // namespace weft::schedule
