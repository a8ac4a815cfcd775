// The optimizer of a run as the executor asks for it: clipped, at the rate of the step, and never fed what is not a
// number.
#pragma once

#include <memory>
#include <vector>

#include "base/manifest.h"
#include "execute/optimizer_step.h"
#include "nn/parameter_store.h"
#include "optim/optimizer.h"
#include "recipe/parametrisation.h"
#include "recipe/timetable.h"

namespace weft::train {

class RunOptimizer final : public execute::OptimizerStep {
 public:
  // `timetable` must outlive it; rules and classes are the parameters', by index.
  RunOptimizer(const recipe::Timetable& timetable, std::vector<recipe::ParameterRule> rules,
               const model::ModelDescription& model, nn::ParameterStore& parameters);

  // Of classes without rates of their own, before factors of the parametrisation; steps count from 0.
  [[nodiscard]] double learning_rate(int64_t step) const;

  // Throws Error naming the step, before anything changes, where loss or norm is not finite.
  void apply(nn::ParameterStore& parameters, const execute::StepFacts& facts) override;

  // What a checkpoint keeps: views into the state, flat, each of what this rank's masters hold of its parameter.
  [[nodiscard]] std::vector<optim::StateTensor> state() const;
  [[nodiscard]] std::vector<ManifestOptimizerGroup> groups(const nn::ParameterStore& parameters) const;
  void restore_steps(int64_t steps) { optimizer_->restore_steps(steps); }

 private:
  // A run of parameters in one of the store's buffers that change alike.
  struct Piece {
    size_t group = 0;  // of the store
    int64_t offset = 0, size = 0;
    int parameter = 0;  // one of them
  };
  [[nodiscard]] bool alike(int left, int right) const;
  [[nodiscard]] std::vector<optim::Group> cut_groups(const nn::ParameterStore& parameters);
  [[nodiscard]] std::vector<at::Tensor> gradients(const nn::ParameterStore& parameters) const;

  const recipe::Timetable& timetable_;
  std::vector<recipe::ParameterRule> rules_;
  std::vector<model::ParameterClass> classes_;
  std::vector<bool> matrices_;  // hidden ones, experts' too
  std::vector<Piece> pieces_;  // one a group of the optimizer
  std::unique_ptr<optim::Optimizer> optimizer_;
};

}  // namespace weft::train
