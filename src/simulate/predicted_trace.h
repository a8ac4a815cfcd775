// What a simulation predicts, as a trace (base/trace.h).
#pragma once

#include <string>

#include "base/trace.h"
#include "simulate/simulate.h"

namespace weft::simulate {

// Rank and role are the same; a curve "activations" a role. Reshards and posted waits, which take no time, are left
// out, and so is a Receive: its Send is the same transfer.
[[nodiscard]] Trace predicted_trace(const schedule::Schedule& schedule, const Costs& costs,
                                    const Simulation& simulation, std::string title);

}  // namespace weft::simulate
