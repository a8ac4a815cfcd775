#include "simulate/activations.h"

#include "schedule/computations.h"

namespace weft::simulate {

using schedule::Action;
using schedule::Op;

Activations::Activations(const schedule::Schedule& schedule, const Costs& costs)
    : costs_(costs), uses_(schedule.stages.size()) {
  for (const schedule::RoleSchedule& role : schedule.roles) {
    for (const Action& action : role.actions) {
      if (!schedule::is_computation(action.op)) continue;
      uint8_t& uses = uses_[static_cast<size_t>(action.stage)];
      if (schedule::makes_gradient(action.op)) uses |= kBackward;
      if (action.op == Op::kBackwardWeight) uses |= kWeight;
      if (action.op == Op::kRecompute) uses |= kRecompute;
    }
  }
}

double Activations::taken(const Action& action) const {
  if (action.op != Op::kForward && action.op != Op::kRecompute) return 0;
  const double all = costs_.stages[static_cast<size_t>(action.stage)].activation;
  return action.op == Op::kForward ? all : (1 - costs_.input_share) * all;
}

double Activations::returned(const Action& action) const {
  const double all = costs_.stages[static_cast<size_t>(action.stage)].activation;
  switch (action.op) {
    case Op::kForward:
      if (!uses(action, kBackward)) return all;
      return uses(action, kRecompute) ? (1 - costs_.input_share) * all : 0;
    case Op::kBackward:
      return all;
    case Op::kBackwardInput:
      return uses(action, kWeight) ? (1 - costs_.weight_share) * all : all;
    case Op::kBackwardWeight:
      return costs_.weight_share * all;
    default:
      return 0;
  }
}

}  // namespace weft::simulate
