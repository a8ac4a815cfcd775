// zb-h1 and zb-h2: 1F1B with the backward divided, and its weight half put off until the role would wait.
#include <algorithm>

#include "schedule/generators.h"

namespace weft::schedule {

// Role r has `ahead` forwards before its first backward and puts weight gradients off by `lag` micro-batches: P - r and
// r, or 2 (P - r) - 1 and 2 r (Zero Bubble Pipeline Parallelism, arXiv 2401.10241, table 2).
void fill_zero_bubble(Kind kind, const GenerateOptions& options, Schedule& schedule) {
  const int32_t micro_batches = options.micro_batches;
  for (int32_t role = 0; role < options.roles; ++role) {
    const bool first = kind == Kind::kZeroBubbleH1;
    const int32_t behind = options.roles - role;
    const int32_t ahead = std::min(micro_batches, first ? behind : 2 * behind - 1);
    const int32_t lag = first ? role : 2 * role;
    std::vector<Action>& actions = schedule.roles[static_cast<size_t>(role)].actions;
    actions.reserve(static_cast<size_t>(micro_batches) * 3);
    int32_t weights = 0;
    for (int32_t forward = 0; forward < ahead; ++forward) {
      actions.push_back(computation(Op::kForward, role, forward));
    }
    for (int32_t backward = 0; backward < micro_batches; ++backward) {
      actions.push_back(computation(Op::kBackwardInput, role, backward));
      if (backward + 1 - weights > lag) actions.push_back(computation(Op::kBackwardWeight, role, weights++));
      if (ahead + backward < micro_batches) actions.push_back(computation(Op::kForward, role, ahead + backward));
    }
    while (weights < micro_batches) actions.push_back(computation(Op::kBackwardWeight, role, weights++));
  }
}

}  // namespace weft::schedule
