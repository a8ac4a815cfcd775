#include "schedule/computations.h"

#include <fmt/format.h>

#include "base/error.h"

namespace weft::schedule {
namespace {

uint8_t bit_of(Op op) {
  if (op == Op::kForward) return 1;
  if (op == Op::kBackwardWeight) return 2;
  return op == Op::kRecompute ? 4 : 8;
}

}  // namespace

ComputationGrid::ComputationGrid(const Schedule& schedule)
    : stages_(schedule.stages.size()), micro_batches_(static_cast<size_t>(schedule.micro_batches)) {
  has_backward_.assign(stages_, 0);
  for (size_t stage = 0; stage < stages_; ++stage) {
    const int32_t owner = schedule.stages[stage].role;
    if (owner >= 0 && static_cast<size_t>(owner) < schedule.roles.size()) continue;
    throw InputError(
        fmt::format("stage {} of role {}; the schedule has {} roles", stage, owner, schedule.roles.size()));
  }
  std::vector<uint8_t> seen(size());
  for (size_t role = 0; role < schedule.roles.size(); ++role) {
    for (const Action& action : schedule.roles[role].actions) {
      if (!is_computation(action.op)) continue;
      const bool known = action.stage >= 0 && static_cast<size_t>(action.stage) < stages_ && action.micro_batch >= 0 &&
                         static_cast<size_t>(action.micro_batch) < micro_batches_;
      if (!known) {
        throw InputError(fmt::format("role {}: {}; the schedule has {} stages and {} micro-batches", role, text(action),
                                     stages_, micro_batches_));
      }
      const int32_t owner = schedule.stages[static_cast<size_t>(action.stage)].role;
      if (static_cast<size_t>(owner) != role) {
        throw InputError(fmt::format("role {}: {} of a stage of role {}", role, text(action), owner));
      }
      uint8_t& kinds = seen[cell(action)];
      if ((kinds & bit_of(action.op)) != 0) {
        throw InputError(fmt::format("role {}: {} stands in the list twice", role, text(action)));
      }
      kinds |= bit_of(action.op);
      if (makes_gradient(action.op)) has_backward_[static_cast<size_t>(action.stage)] = 1;
    }
  }
}

}  // namespace weft::schedule
