// The optimizer of a run as the executor asks for it: clipped, at the rate of the step, and never fed what is not a
// number.
#pragma once

#include <memory>
#include <vector>

#include "base/manifest.h"
#include "execute/optimizer_step.h"
#include "nn/parameter_store.h"
#include "optim/optimizer.h"
#include "run/run_node.h"

namespace weft::train {

class RunOptimizer final : public execute::OptimizerStep {
 public:
  // `run` must outlive it.
  RunOptimizer(const run::RunNode& run, nn::ParameterStore& parameters);

  [[nodiscard]] double learning_rate(int64_t step) const;  // steps count from 0

  // Throws Error naming the step, before anything changes, where loss or norm is not finite.
  void apply(nn::ParameterStore& parameters, const execute::StepFacts& facts) override;

  // What a checkpoint keeps: views into the state, flat, each of what this rank's masters hold of its parameter.
  [[nodiscard]] std::vector<optim::StateTensor> state() const;
  [[nodiscard]] std::vector<ManifestOptimizerGroup> groups(const nn::ParameterStore& parameters) const;
  void restore_steps(int64_t steps) { optimizer_->restore_steps(steps); }

 private:
  const run::RunNode& run_;
  std::unique_ptr<optim::Optimizer> optimizer_;
};

}  // namespace weft::train
