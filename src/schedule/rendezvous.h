// Runs the messages of a stage-level schedule as the worst transport would: a Send ends only when its Receive was
// posted, and the messages of one role in one direction, sent or received, end in the order of its list. What ends so
// ends under any transport, whatever the computations take.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "schedule/schedule.h"

namespace weft::schedule {

// Receives that hold everything up are posted where their role stands then, instead of later in its list: of the sends
// that wait, `order` says which is helped first (the smallest), by the cell (ComputationGrid) of what is sent and its
// direction: 2 cell + 1 for a gradient. With an empty `order` none is helped. Nothing where the schedule hangs.
[[nodiscard]] std::optional<Schedule> run_rendezvous(const Schedule& schedule, const std::vector<double>& order = {});

}  // namespace weft::schedule
