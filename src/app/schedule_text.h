// What `weft schedule` tells a person.
#pragma once

#include <string>

#include "schedule/schedule.h"
#include "simulate/simulate.h"

namespace weft::app {

// The lists of computations over time, a line a role, at most 120 columns; empty where that is too narrow for the
// shortest of them.
[[nodiscard]] std::string drawing(const schedule::Schedule& schedule, const simulate::Simulation& simulation,
                                  bool colour);

// A line a role: times, waits by class, peak, traffic. Of many roles the first and the last.
[[nodiscard]] std::string role_table(const simulate::Simulation& simulation);

// Both definitions of the bubble, in sentences.
[[nodiscard]] std::string bubble_text(const simulate::Simulation& simulation);

}  // namespace weft::app
