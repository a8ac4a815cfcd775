#include "schedule/passes.h"

#include <utility>

namespace weft::schedule {

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

}  // namespace weft::schedule
