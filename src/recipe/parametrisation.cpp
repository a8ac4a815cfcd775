#include "recipe/parametrisation.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace weft::recipe {
namespace {

using config::Hint;
using model::ParameterClass;

ParameterRule as_described(const model::ParameterDescription& parameter) {
  ParameterRule rule;
  rule.standard_deviation = parameter.initializer.standard_deviation;
  rule.decay = parameter.weight_decay ? 1 : 0;
  return rule;
}

// sqrt(2 layers) where the model asks for it.
double depth_divisor(const model::ModelNode& model, const model::ParameterDescription& parameter) {
  const bool scaled = parameter.writes_residual && model.initializer.output_projections == "depth";
  return scaled ? std::sqrt(2.0 * static_cast<double>(model.layers.get())) : 1;
}

int64_t head_dim_of(const model::ModelNode& model) {
  return dynamic_cast<const model::GroupedQueryAttention&>(*model.layer.attention).head_dim;
}

}  // namespace

const config::KindList& ParametrisationNode::kinds() {
  static const config::KindList kinds = config::KindList::of<StandardParametrisation, MupParametrisation,
                                                             SpectralParametrisation, XmodelParametrisation>();
  return kinds;
}

void ClassFactors::fields(config::FieldList& list) {
  list.add("init", init, Hint::kCore, "x", "of the class's initial deviation").at_least(0);
  list.add("rate", rate, Hint::kCore, "x", "of the class's rate").at_least(0);
  list.add("epsilon", epsilon, Hint::kCore, "x", "of the class's epsilon").above(0);
  list.add("decay", decay, Hint::kCore, "x", "of the class's weight decay").at_least(0);
}

void ParametrisationNode::fields(config::FieldList& list) {
  list.add("classes", classes, Hint::kCore, "factors for single classes of parameters, on top of the kind's");
}

ParameterRule StandardParametrisation::rule(const model::ModelNode&, const model::ParameterDescription& parameter,
                                            const OptimizerNode&) const {
  return as_described(parameter);
}

double WidthParametrisation::width_factor(const model::ModelNode& model) const {
  return static_cast<double>(model.width.get()) / static_cast<double>(base_width.value_or(model.width));
}

std::vector<FixedField> WidthParametrisation::multipliers(const model::ModelNode& model, double residual) const {
  return {{"embedding.multiplier", input_multiplier},
          {"layer.attention_residual.multiplier", residual},
          {"layer.mlp_residual.multiplier", residual},
          {"head.multiplier", output_multiplier / width_factor(model)}};
}

void WidthParametrisation::fields(config::FieldList& list) {
  list.add("base_width", base_width, Hint::kCore, "",
           "the width at which rates and deviations were found; unset: the model's")
      .at_least(1)
      .at_most(model::kGreatestWidth);
  list.add("input_multiplier", input_multiplier, Hint::kCore, "x", "of the embedding's rows");
  list.add("output_multiplier", output_multiplier, Hint::kCore, "x", "of the logits, which are divided by the width's");
  list.add("residual_multiplier", residual_multiplier, Hint::kCore, "x", "of a layer's two branches");
  ParametrisationNode::fields(list);
}

std::vector<FixedField> MupParametrisation::fixed_fields(const model::ModelNode& model) const {
  std::vector<FixedField> fields = multipliers(model, residual_multiplier);
  const auto head_dim = static_cast<double>(head_dim_of(model));
  const double base = base_head_dim ? static_cast<double>(*base_head_dim) : head_dim;
  fields.push_back({"layer.attention.scale", std::sqrt(base) / head_dim});
  return fields;
}

ParameterRule MupParametrisation::rule(const model::ModelNode& model, const model::ParameterDescription& parameter,
                                       const OptimizerNode& optimizer) const {
  ParameterRule rule = as_described(parameter);
  const double m = width_factor(model);
  rule.epsilon = 1 / m;  // every gradient shrinks with the logits' multiplier
  if (!is_hidden_matrix(parameter)) return rule;
  rule.standard_deviation /= std::sqrt(m);
  rule.rate = std::pow(m, optimizer.matrix_rate_exponent());
  rule.decay /= rule.rate;
  return rule;
}

void MupParametrisation::fields(config::FieldList& list) {
  WidthParametrisation::fields(list);
  list.add("base_head_dim", base_head_dim, Hint::kCore, "",
           "scores are multiplied by sqrt(base_head_dim) / head_dim; unset: the model's head_dim")
      .at_least(1)
      .at_most(model::kGreatestHeadDim);
}

ParameterRule SpectralParametrisation::rule(const model::ModelNode& model, const model::ParameterDescription& parameter,
                                            const OptimizerNode& optimizer) const {
  ParameterRule rule = MupParametrisation::rule(model, parameter, optimizer);
  if (!is_hidden_matrix(parameter)) return rule;
  const auto in = static_cast<double>(parameter.fan_in), out = static_cast<double>(parameter.fan_out);
  rule.standard_deviation = gain * std::min(1.0, std::sqrt(out / in)) / std::sqrt(in) / depth_divisor(model, parameter);
  return rule;
}

void SpectralParametrisation::fields(config::FieldList& list) {
  MupParametrisation::fields(list);
  list.add("gain", gain, Hint::kCore, "x", "of the spectral norm of fresh hidden matrices").at_least(0);
}

XmodelParametrisation::XmodelParametrisation() {
  base_width = 256;
  input_multiplier = 12;
  residual_multiplier = 1.4;
}

std::vector<FixedField> XmodelParametrisation::fixed_fields(const model::ModelNode& model) const {
  const double depth = std::sqrt(static_cast<double>(model.layers.get()));
  std::vector<FixedField> fields = multipliers(model, residual_multiplier / depth);
  fields.push_back({"layer.attention.scale", 1 / static_cast<double>(head_dim_of(model))});
  return fields;
}

ParameterRule XmodelParametrisation::rule(const model::ModelNode& model, const model::ParameterDescription& parameter,
                                          const OptimizerNode&) const {
  ParameterRule rule = as_described(parameter);
  const double m = width_factor(model);
  const bool of_vocabulary = !is_hidden_matrix(parameter) && parameter.parameter_class != ParameterClass::kVector;
  if (!of_vocabulary) rule.rate = 1 / m;
  if (is_hidden_matrix(parameter) && !parameter.writes_residual) rule.standard_deviation /= std::sqrt(m);
  return rule;
}

std::vector<ParameterRule> parameter_rules(const ParametrisationNode& parametrisation, const model::ModelNode& model,
                                           const model::ModelDescription& description, const OptimizerNode& optimizer) {
  check_classes(parametrisation.classes, "parametrisation.classes");
  for (const auto& entry : parametrisation.classes.slots) {
    const auto of_class = [&](const auto& parameter) { return parameter.parameter_class == entry->of(); };
    if (std::ranges::none_of(description.parameters, of_class)) {
      throw InputError(fmt::format("parametrisation.classes: the model has no parameter of class {}", entry->kind()));
    }
  }
  std::vector<ParameterRule> rules;
  for (const model::ParameterDescription& parameter : description.parameters) {
    ParameterRule& rule = rules.emplace_back(parametrisation.rule(model, parameter, optimizer));
    const ClassFactors* factors = entry_of(parametrisation.classes, parameter.parameter_class);
    if (factors == nullptr) continue;
    rule.standard_deviation *= factors->init;
    rule.rate *= factors->rate;
    rule.epsilon *= factors->epsilon;
    rule.decay *= factors->decay;
  }
  return rules;
}

void set_deviations(model::ModelDescription& description, const std::vector<ParameterRule>& rules) {
  for (size_t index = 0; index < rules.size(); ++index) {
    model::Initializer& initializer = description.parameters[index].initializer;
    if (initializer.kind == model::Initializer::Kind::kNormal) {
      initializer.standard_deviation = rules[index].standard_deviation;
    }
  }
}

}  // namespace weft::recipe
