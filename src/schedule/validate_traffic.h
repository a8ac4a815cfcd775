// The part of the validator that judges traffic (schedule.h, validate).
#pragma once

#include <string>

#include "schedule/schedule.h"

namespace weft::schedule {

[[nodiscard]] bool is_traffic(Op op);

// What is wrong with the traffic of a lowered schedule whose computations are valid, or an empty string.
[[nodiscard]] std::string validate_traffic(const Schedule& schedule, const model::ModelDescription& model,
                                           const Layout& layout);

}  // namespace weft::schedule
