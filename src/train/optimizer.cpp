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
  for (const model::ParameterDescription& parameter : model.parameters) {
    classes_.push_back(parameter.parameter_class);
    matrices_.push_back(recipe::is_hidden_matrix(parameter));
  }
  optimizer_ = optim::make_optimizer(*timetable.at(0).optimizer, cut_groups(parameters));
}

bool RunOptimizer::alike(int left, int right) const {
  const auto a = static_cast<size_t>(left), b = static_cast<size_t>(right);
  const recipe::ParameterRule &one = rules_.at(a), &other = rules_.at(b);
  return one.rate == other.rate && one.epsilon == other.epsilon && one.decay == other.decay &&
         matrices_.at(a) == matrices_.at(b) && timetable_.same_factors(classes_.at(a), classes_.at(b));
}

// Parameters lie in a store's group in its order, without gaps; neighbours that change alike are one group here.
std::vector<optim::Group> RunOptimizer::cut_groups(const nn::ParameterStore& parameters) {
  std::vector<optim::Group> groups;
  for (size_t number = 0; number < parameters.groups().size(); ++number) {
    const auto& stored = parameters.groups()[number];
    int64_t offset = 0;
    for (const int& parameter : stored.pieces) {
      if (&parameter == &stored.pieces.front() || !alike(pieces_.back().parameter, parameter)) {
        const auto index = static_cast<size_t>(parameter);
        pieces_.push_back({number, offset, 0, parameter});
        groups.push_back({rules_.at(index).epsilon, rules_.at(index).decay, matrices_.at(index), {}, {}});
      }
      const nn::Piece& held = parameters.piece(parameter);
      const int64_t size = held.range.size();
      groups.back().parts.push_back({parameters.path(parameter), pieces_.back().size, size, held.shape});
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
  const auto* muon = dynamic_cast<const recipe::Muon*>(timetable_.at(0).optimizer);
  std::vector<ManifestOptimizerGroup> result;
  const auto add = [&](const char* name, std::string_view kind, std::string convention, auto&& member) {
    ManifestOptimizerGroup& entry = result.emplace_back();
    entry.name = name;
    entry.kind = kind;
    entry.convention = std::move(convention);
    entry.updates = optimizer_->steps();
    for (int index = 0; index < static_cast<int>(parameters.size()); ++index) {
      if (!parameters.frozen(index) && member(index)) entry.parameters.push_back(parameters.path(index));
    }
  };
  const auto by_muon = [&](int index) { return muon != nullptr && matrices_.at(static_cast<size_t>(index)); };
  if (muon != nullptr) add("orthogonalised", recipe::Muon::kKind, muon->convention, by_muon);
  for (const bool weight_decay : {true, false}) {
    add(weight_decay ? "decayed" : "not decayed", recipe::AdamW::kKind, "torch.optim.AdamW",
        [&](int index) { return !by_muon(index) && parameters.weight_decay(index) == weight_decay; });
  }
  return result;
}

}  // namespace weft::train
