// From a run's tree to the order of a step's work.
#pragma once

#include "model/description.h"
#include "run/run_node.h"
#include "schedule/schedule.h"

namespace weft::run {

// Which role holds which segments: the same for every phase of a run. InputError as step_schedule.
[[nodiscard]] std::vector<schedule::Stage> pipeline_stages(const RunNode& run, const model::ModelDescription& model);

// Stage level, with the model's segments and all messages: what trains on `micro_batches` micro-batches. InputError
// names the keys of [schedule] and [parallel] that contradict each other or the model.
[[nodiscard]] schedule::Schedule step_schedule(const RunNode& run, const model::ModelDescription& model,
                                               int64_t micro_batches);

// The forwards alone of that many micro-batches, on the same stages: an evaluation.
[[nodiscard]] schedule::Schedule evaluation_schedule(const schedule::Schedule& step, int64_t micro_batches);

}  // namespace weft::run
