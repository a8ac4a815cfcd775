#include "train/optimizer.h"

#include <cmath>
#include <utility>

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "base/error.h"

namespace weft::train {
namespace {

void check_finite(const execute::StepFacts& facts) {
  if (std::isfinite(facts.loss) && std::isfinite(facts.gradient_norm)) return;
  throw Error(fmt::format(
      "step {}: the {} is not a finite number (loss {}, gradient norm {}). The parameters were not changed by this "
      "step. "
      "A smaller optimizer.learning_rate, a longer warm-up, or fp32 instead of bf16 help most often",
      facts.step + 1, std::isfinite(facts.loss) ? "gradient's norm" : "loss", facts.loss, facts.gradient_norm));
}

}  // namespace

RunOptimizer::RunOptimizer(const recipe::Timetable& timetable, std::vector<recipe::ParameterRule> rules,
                           const model::ModelDescription& model, nn::ParameterStore& parameters)
    : timetable_(timetable), rules_(std::move(rules)) {
  for (const model::ParameterDescription& parameter : model.parameters) classes_.push_back(parameter.parameter_class);
  optimizer_ = optim::make_optimizer(*timetable.at(0).optimizer, cut_groups(parameters));
}

bool RunOptimizer::alike(int left, int right) const {
  const auto a = static_cast<size_t>(left), b = static_cast<size_t>(right);
  const recipe::ParameterRule &one = rules_.at(a), &other = rules_.at(b);
  return one.rate == other.rate && one.epsilon == other.epsilon && one.decay == other.decay &&
         timetable_.same_factors(classes_.at(a), classes_.at(b));
}

// Parameters lie in a store's group in its order, without gaps; neighbours that change alike are one group here.
std::vector<optim::Group> RunOptimizer::cut_groups(const nn::ParameterStore& parameters) {
  std::vector<optim::Group> groups;
  for (size_t number = 0; number < parameters.groups().size(); ++number) {
    const auto& stored = parameters.groups()[number];
    int64_t offset = 0;
    for (const int& parameter : stored.pieces) {
      if (&parameter == &stored.pieces.front() || !alike(pieces_.back().parameter, parameter)) {
        const recipe::ParameterRule& rule = rules_.at(static_cast<size_t>(parameter));
        pieces_.push_back({number, offset, 0, parameter});
        groups.push_back({rule.epsilon, rule.decay, {}, {}});
      }
      const int64_t size = parameters.piece(parameter).range.size();
      groups.back().parts.push_back({parameters.path(parameter), pieces_.back().size, size});
      pieces_.back().size += size;
      offset += size;
    }
  }
  for (size_t index = 0; index < groups.size(); ++index) {
    const Piece& piece = pieces_[index];
    groups[index].master = parameters.groups()[piece.group].master.narrow(0, piece.offset, piece.size);
  }
  return groups;
}

std::vector<at::Tensor> RunOptimizer::gradients(const nn::ParameterStore& parameters) const {
  std::vector<at::Tensor> gradients;
  for (const Piece& piece : pieces_) {
    gradients.push_back(parameters.groups()[piece.group].gradient.narrow(0, piece.offset, piece.size));
  }
  return gradients;
}

double RunOptimizer::learning_rate(int64_t step) const {
  return timetable_.at(step).optimizer->learning_rate * timetable_.rate_factor(step);
}

void RunOptimizer::apply(nn::ParameterStore& parameters, const execute::StepFacts& facts) {
  check_finite(facts);
  const double rate = timetable_.at(facts.step).optimizer->learning_rate;
  std::vector<double> rates;
  for (const Piece& piece : pieces_) {
    const auto parameter = static_cast<size_t>(piece.parameter);
    rates.push_back(rate * timetable_.rate_factor(facts.step, classes_[parameter]) * rules_[parameter].rate);
  }
  optimizer_->step(gradients(parameters), facts.gradient_norm, rates);
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
