#include "train/optimizer.h"

#include <cmath>
#include <utility>

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "base/error.h"

namespace weft::train {
namespace {

// Pieces lie in a group's buffer in its order, without gaps.
std::vector<optim::Group> groups_of(const nn::ParameterStore& parameters) {
  std::vector<optim::Group> groups;
  for (const auto& group : parameters.groups()) {
    optim::Group& flat = groups.emplace_back();
    flat.weight_decay = group.weight_decay;
    flat.master = group.master;
    int64_t offset = 0;
    for (const int parameter : group.pieces) {
      const int64_t size = parameters.piece(parameter).range.size();
      flat.parts.push_back({parameters.path(parameter), offset, size});
      offset += size;
    }
  }
  return groups;
}

std::vector<at::Tensor> gradients_of(const nn::ParameterStore& parameters) {
  std::vector<at::Tensor> gradients;
  for (const auto& group : parameters.groups()) gradients.push_back(group.gradient);
  return gradients;
}

void check_finite(const execute::StepFacts& facts) {
  if (std::isfinite(facts.loss) && std::isfinite(facts.gradient_norm)) return;
  throw Error(fmt::format(
      "step {}: the {} is not a finite number (loss {}, gradient norm {}). The parameters were not changed by this "
      "step. "
      "A smaller optimizer.learning_rate, a longer warm-up, or fp32 instead of bf16 help most often",
      facts.step + 1, std::isfinite(facts.loss) ? "gradient's norm" : "loss", facts.loss, facts.gradient_norm));
}

}  // namespace

RunOptimizer::RunOptimizer(const run::RunNode& run, nn::ParameterStore& parameters)
    : run_(run), optimizer_(optim::make_optimizer(*run.optimizer, groups_of(parameters))) {}

double RunOptimizer::learning_rate(int64_t step) const {
  return run_.optimizer->learning_rate * recipe::rate_factor(run_.phases, step);
}

void RunOptimizer::apply(nn::ParameterStore& parameters, const execute::StepFacts& facts) {
  check_finite(facts);
  optimizer_->step(gradients_of(parameters), facts.gradient_norm, learning_rate(facts.step));
  parameters.refresh_compute_copies();
}

std::vector<optim::StateTensor> RunOptimizer::state() const { return optimizer_->state(); }

std::vector<ManifestOptimizerGroup> RunOptimizer::groups(const nn::ParameterStore& parameters) const {
  std::vector<ManifestOptimizerGroup> result;
  for (const bool weight_decay : {true, false}) {
    ManifestOptimizerGroup& entry = result.emplace_back();
    entry.name = weight_decay ? "decayed" : "not decayed";
    entry.kind = optimizer_->kind();
    entry.convention = "torch.optim.AdamW";
    entry.updates = optimizer_->steps();
    for (int index = 0; index < static_cast<int>(parameters.size()); ++index) {
      const bool member = !parameters.frozen(index) && parameters.weight_decay(index) == weight_decay;
      if (member) entry.parameters.push_back(parameters.path(index));
    }
  }
  return result;
}

}  // namespace weft::train
