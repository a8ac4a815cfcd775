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

// Where a role stands when nothing moves any more: the action that it waits in, or the message at the head of one of
// its streams that does not end.
struct Standstill {
  int32_t role = 0;
  size_t action = 0;
};
// Empty: every role gets to the end of its list and all messages end.
[[nodiscard]] std::vector<Standstill> standstill(const Schedule& schedule);

}  // namespace weft::schedule
