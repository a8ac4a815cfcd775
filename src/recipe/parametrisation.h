// The [parametrisation] section: how initial values, rates and the model's multipliers follow from a parameter's class
// and from the model's width. docs/parametrisation.md has the tables and where they come from.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/node.h"
#include "model/description.h"
#include "model/nodes.h"
#include "recipe/optimizer_node.h"
#include "recipe/parameter_classes.h"

namespace weft::recipe {

// What the parametrisation decides of one parameter. All but the deviation are factors of the optimizer's settings.
struct ParameterRule {
  double standard_deviation = 0;  // of fresh normal values; 0: gains and biases, which are ones and zeros
  double rate = 1;
  double epsilon = 1;
  double decay = 1;  // 0: no weight decay
  friend bool operator==(const ParameterRule&, const ParameterRule&) = default;
};

// A field of the model that the parametrisation fixes.
struct FixedField {
  std::string path;  // below [model]: "head.multiplier"
  double value = 1;
};

// Of one class, on top of what the kind decides.
struct ClassFactors : config::Node {
  static const config::KindList& kinds() { return class_kinds<ClassFactors>(); }
  [[nodiscard]] virtual model::ParameterClass of() const = 0;
  double init = 1, rate = 1, epsilon = 1, decay = 1;
  void fields(config::FieldList& list) override;
};

struct ParametrisationNode : config::Node {
  static const config::KindList& kinds();

  config::SlotList<ClassFactors> classes;

  // Multipliers of the model's parts, absolute: what a run file says of them may only repeat it.
  [[nodiscard]] virtual std::vector<FixedField> fixed_fields(const model::ModelNode& model) const = 0;
  // Without `classes`. The parameter is as describe() made it.
  [[nodiscard]] virtual ParameterRule rule(const model::ModelNode& model, const model::ParameterDescription& parameter,
                                           const OptimizerNode& optimizer) const = 0;

  void fields(config::FieldList& list) override;
};

// Every parameter is initialised as the model says and learns at the optimizer's rate.
struct StandardParametrisation : ParametrisationNode {
  WEFT_NODE(StandardParametrisation, "standard")
  [[nodiscard]] std::vector<FixedField> fixed_fields(const model::ModelNode&) const override { return {}; }
  [[nodiscard]] ParameterRule rule(const model::ModelNode& model, const model::ParameterDescription& parameter,
                                   const OptimizerNode& optimizer) const override;
};

// Those that depend on m = width / base_width.
struct WidthParametrisation : ParametrisationNode {
  std::optional<int64_t> base_width;  // unset: the model's width, m = 1
  double input_multiplier = 1;        // of the embedding
  double output_multiplier = 1;       // of the logits, which are divided by m
  double residual_multiplier = 1;     // of both branches of a layer

  [[nodiscard]] double width_factor(const model::ModelNode& model) const;  // m
  // Embedding, branches (times `residual`) and logits.
  [[nodiscard]] std::vector<FixedField> multipliers(const model::ModelNode& model, double residual) const;
  void fields(config::FieldList& list) override;
};

// The maximal update parametrisation in the form that works with tied embeddings (arXiv 2203.03466, table 8): hidden
// matrices N(0, s^2 / m), logits divided by m. Rates found at base_width hold at every width.
struct MupParametrisation : WidthParametrisation {
  WEFT_NODE(MupParametrisation, "mup")
  std::optional<int64_t> base_head_dim;  // scores are q.k sqrt(base_head_dim) / head_dim; unset: the model's head_dim

  [[nodiscard]] std::vector<FixedField> fixed_fields(const model::ModelNode& model) const override;
  [[nodiscard]] ParameterRule rule(const model::ModelNode& model, const model::ParameterDescription& parameter,
                                   const OptimizerNode& optimizer) const override;
  void fields(config::FieldList& list) override;
};

// mup with hidden matrices whose spectral norm is about sqrt(fan_out / fan_in) times `gain` at every shape (arXiv
// 2310.17813): N(0, (gain min(1, sqrt(fan_out / fan_in)) / sqrt(fan_in))^2).
struct SpectralParametrisation : MupParametrisation {
  WEFT_NODE(SpectralParametrisation, "spectral")
  double gain = 1;

  [[nodiscard]] ParameterRule rule(const model::ModelNode& model, const model::ParameterDescription& parameter,
                                   const OptimizerNode& optimizer) const override;
  void fields(config::FieldList& list) override;
};

// What Xmodel-2.5 was trained with, holes included: matrices that write to the residual stream have no width factor in
// their deviation, gains learn at the rate of matrices, epsilon and decay have no factor, scores are q.k / head_dim.
struct XmodelParametrisation : WidthParametrisation {
  WEFT_NODE(XmodelParametrisation, "xmodel")
  XmodelParametrisation();
  [[nodiscard]] std::vector<FixedField> fixed_fields(const model::ModelNode& model) const override;
  [[nodiscard]] ParameterRule rule(const model::ModelNode& model, const model::ParameterDescription& parameter,
                                   const OptimizerNode& optimizer) const override;
};

// InputError: a class of the list has two entries or no parameter in the model.
[[nodiscard]] std::vector<ParameterRule> parameter_rules(const ParametrisationNode& parametrisation,
                                                         const model::ModelNode& model,
                                                         const model::ModelDescription& description,
                                                         const OptimizerNode& optimizer);

// Gives the parameters the deviations of their rules.
void set_deviations(model::ModelDescription& description, const std::vector<ParameterRule>& rules);

}  // namespace weft::recipe
