// What a run's phases mean for its other sections.
#pragma once

#include <vector>

#include "data/dataset.h"
#include "model/description.h"
#include "recipe/parametrisation.h"
#include "recipe/timetable.h"
#include "run/run_node.h"

namespace weft::run {

// The run must outlive it. InputError names the phase and the key.
[[nodiscard]] recipe::Timetable timetable_of(const RunNode& run);

// Where the length of sequences or the mixture changes. A phase that changes neither leaves the order of samples as it
// is.
[[nodiscard]] std::vector<data::DataPhase> data_phases(const RunNode& run);

// Of each parameter, under [optimizer].
[[nodiscard]] std::vector<recipe::ParameterRule> parameter_rules(const RunNode& run,
                                                                 const model::ModelDescription& description);

// The model with the deviations that its parametrisation asks for. The run must outlive it.
[[nodiscard]] model::ModelDescription describe(const RunNode& run);

// InputError naming the phase and the key that training does not obey yet, of those that begin before train.steps.
void check_trainable(const RunNode& run);

}  // namespace weft::run
