// The parameters that a run starts with, and those that it leaves as they are.
#pragma once

#include <vector>

#include "model/description.h"
#include "nn/parameter_store.h"
#include "run/run_node.h"

namespace weft::train {

// One flag a parameter. InputError: a pattern of train.frozen matches no parameter, or all are frozen.
[[nodiscard]] std::vector<bool> frozen_parameters(const run::TrainNode& train, const model::ModelDescription& model);

// Random values of train.seed, or those of train.initial_weights: InputError names a parameter that is missing there or
// has another shape.
void initialize_parameters(nn::ParameterStore& parameters, const model::ModelDescription& model,
                           const run::TrainNode& train);

}  // namespace weft::train
