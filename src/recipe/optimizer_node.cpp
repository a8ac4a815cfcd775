#include "recipe/optimizer_node.h"

#include <algorithm>
#include <cmath>

namespace weft::recipe {

using config::Hint;

const config::KindList& OptimizerNode::kinds() {
  static const config::KindList kinds = config::KindList::of<AdamW, Muon>();
  return kinds;
}

void OptimizerNode::fields(config::FieldList& list) {
  list.add("learning_rate", learning_rate, Hint::kCore, "", "the rate that the phases multiply").at_least(0);
  list.add("clip", clip, Hint::kCore, "", "greatest norm of the whole gradient; 0: never clipped").at_least(0);
}

void AdamW::fields(config::FieldList& list) {
  OptimizerNode::fields(list);
  list.add("betas", betas, Hint::kCore, "", "decay of the averages of the gradient and of its square")
      .length(2)
      .at_least(0)
      .below(1);
  list.add("epsilon", epsilon, Hint::kCore, "", "added to the root of the second average").above(0);
  list.add("weight_decay", weight_decay, Hint::kCore, "", "share of a parameter lost a step, times the rate")
      .at_least(0);
}

double AdamW::update_size(const model::ParameterDescription&) const {
  return std::sqrt((1 - betas.at(0)) / (1 + betas.at(0)));
}

double Muon::scale_of(int64_t rows, int64_t columns) const {
  const auto a = static_cast<double>(rows), b = static_cast<double>(columns);
  if (scale == "original") return std::sqrt(std::max(1.0, a / b));
  if (scale == "spectral") return std::sqrt(a / b);
  return 0.2 * std::sqrt(std::max(a, b));
}

double Muon::update_size(const model::ParameterDescription& parameter) const {
  if (!is_hidden_matrix(parameter)) return AdamW::update_size(parameter);
  const double longer = static_cast<double>(std::max(parameter.fan_out, parameter.fan_in));
  return scale_of(parameter.fan_out, parameter.fan_in) / std::sqrt(longer);
}

void Muon::fields(config::FieldList& list) {
  AdamW::fields(list);
  list.add("momentum", momentum, Hint::kCore, "", "of matrices").at_least(0).below(1);
  list.add("convention", convention, Hint::kCore, "",
           "of the momentum: sum is b = momentum b + g, average b = momentum b + (1 - momentum) g")
      .one_of({"sum", "average"});
  list.add("nesterov", nesterov, Hint::kCore, "", "the direction looks one step ahead");
  list.add("coefficients", coefficients, Hint::kCore, "", "of the Newton-Schulz steps")
      .one_of({"jordan", "polar_express"});
  list.add("scale", scale, Hint::kCore, "",
           "of a direction (A, B): adamw is 0.2 sqrt(max(A, B)), original sqrt(max(1, A / B)), spectral sqrt(A / B)")
      .one_of({"adamw", "original", "spectral"});
}

bool is_hidden_matrix(const model::ParameterDescription& parameter) {
  return parameter.parameter_class == model::ParameterClass::kHiddenMatrix ||
         parameter.parameter_class == model::ParameterClass::kExpert;
}

}  // namespace weft::recipe
