// Between a run in memory and its checkpoints.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "data/dataset.h"
#include "execute/parameter_traffic.h"
#include "execute/ranks.h"
#include "nn/parameter_store.h"
#include "run/run_node.h"
#include "train/optimizer.h"

namespace weft::train {

// Where a run stands. Everything else is a pure function of it and of the configuration.
struct Progression {
  int64_t step = 0;                       // optimizer steps done
  int64_t samples = 0;                    // sequences consumed
  int64_t tokens = 0;                     // target tokens trained on
  std::optional<double> validation_loss;  // measured with the parameters of `step`
};

// The objects whose state a checkpoint holds. All outlive it.
struct TrainedState {
  const run::RunNode& run;
  const data::Dataset& dataset;
  nn::ParameterStore& parameters;
  RunOptimizer& optimizer;
  execute::ParameterTraffic& traffic;
  execute::Ranks& ranks;
};

// Both are called on every rank. Each writes what it holds and reads what it needs, so that any layout reads what any
// other wrote.

// Writes checkpoints/step-N whole or not at all, then removes what [checkpoint] does not keep. Error says what was not
// saved and which checkpoint is the newest.
void save_checkpoint(const std::filesystem::path& checkpoints, const TrainedState& state, const Progression& now);

// Loads a step's folder into the state. InputError: it is damaged, does not fit, or was made from other data (named).
[[nodiscard]] Progression load_checkpoint(const std::filesystem::path& folder, const TrainedState& state);

}  // namespace weft::train
