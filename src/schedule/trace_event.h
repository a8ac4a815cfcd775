// An action with its times, as a trace holds it (base/trace.h).
#pragma once

#include "base/trace.h"
#include "schedule/action.h"

namespace weft::schedule {

// Times in seconds from the step's beginning. Actions of both levels.
[[nodiscard]] TraceEvent trace_event(const Action& action, int32_t rank, int32_t role, double begin, double end);

}  // namespace weft::schedule
