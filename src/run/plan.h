// What plan.json in a run's folder says (docs/formats/run-folder.md).
#pragma once

#include <string>

#include "model/description.h"
#include "run/run_node.h"
#include "schedule/schedule.h"

namespace weft::run {

// JSON, a line a fact: degrees, the order of a step's work, which role has which layers, and the schedule's hash. Two
// ranks with the same text do the same work.
[[nodiscard]] std::string plan_text(const RunNode& run, const model::ModelDescription& model,
                                    const schedule::Schedule& step);

}  // namespace weft::run
