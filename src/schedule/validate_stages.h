// Judges stage-level schedules: whether every role gets to the end of its list, and whether what they compute together
// is the gradient. Needs no model. docs/schedules.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "schedule/schedule.h"

namespace weft::schedule {

struct Limits {
  int32_t whole_stages = 0;  // that a role may hold whole at a time; 0: no bound
  double activations = 0;    // of one micro-batch through one role's layers, held by a role; 0: no bound
  double weight_share = 0.4;
};

struct Fault {
  std::string reason;   // names role, action, and what it waits for or contradicts
  int32_t role = -1;    // -1: of no single one
  int64_t action = -1;  // index in the role's list
};

// The first thing that is wrong:
//   structure   each (stage, micro-batch) has one Forward and the backward its stage needs, once, on its owner's list,
//               and each message its two ends;
//   local order Forward before backward before weights; messages behind their makers and before their readers; Unshard
//               before use before Reshard; ReduceGradient behind the last weight gradient; weight gradients of a stage
//               in ascending micro-batches: with all of them there, that makes the sum one device's;
//   memory      Limits;
//   progress    the lists run to their ends (rendezvous.h): no cycle of program order and data, the k-th Send of a role
//               to another in one direction meets its k-th Receive, and a Send ends only when its Receive is posted.
// With or without messages: a schedule without any is judged as if each were sent at once. Roles are replicated and no
// stage is shared, so all ranks of a group make the same collective calls in the same order.
[[nodiscard]] std::optional<Fault> validate_stages(const Schedule& schedule, const Limits& limits = {});

}  // namespace weft::schedule
