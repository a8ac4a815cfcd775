#include "recipe/parametrisation.h"

#include <cmath>
#include <map>

#include <gtest/gtest.h>

#include "config/toml.h"
#include "model/describe.h"
#include "model/family.h"

namespace weft::recipe {
namespace {

model::ModelNode llama(int64_t width, bool tied, int64_t layers = 48) {
  model::LlamaFamily family;
  family.vocabulary = 1000;
  family.width = width;
  family.layers = layers;
  family.heads = width / 64;
  family.kv_heads = 1;
  family.ffn = width * 5 / 2;
  family.tied = tied;
  model::ModelNode model = family.model();
  model.initializer.standard_deviation = 0.1;
  return model;
}

std::map<std::string, ParameterRule> rules(const ParametrisationNode& parametrisation, const model::ModelNode& model,
                                           const OptimizerNode& optimizer = AdamW()) {
  const model::ModelDescription description = model::describe(model);
  const std::vector<ParameterRule> all = parameter_rules(parametrisation, model, description, optimizer);
  std::map<std::string, ParameterRule> by_path;
  for (size_t index = 0; index < all.size(); ++index) by_path[description.parameters[index].path] = all[index];
  return by_path;
}

std::map<std::string, double> fixed(const ParametrisationNode& parametrisation, const model::ModelNode& model) {
  std::map<std::string, double> by_path;
  for (const auto& [path, value] : parametrisation.fixed_fields(model)) by_path[path] = value;
  return by_path;
}

void expect_rule(const ParameterRule& rule, const ParameterRule& wanted, const std::string& what) {
  EXPECT_NEAR(rule.standard_deviation, wanted.standard_deviation, 1e-12) << what;
  EXPECT_NEAR(rule.rate, wanted.rate, 1e-12) << what;
  EXPECT_NEAR(rule.epsilon, wanted.epsilon, 1e-12) << what;
  EXPECT_NEAR(rule.decay, wanted.decay, 1e-12) << what;
}

TEST(Parametrisation, ClassesAreNamedAsTheModelNamesThem) {
  for (size_t index = 0; index < kClassNames.size(); ++index) {
    EXPECT_EQ(kClassNames.at(index), model::parameter_class_name(static_cast<model::ParameterClass>(index)));
  }
}

TEST(Parametrisation, StandardLeavesTheModelAsItIs) {
  const model::ModelNode model = llama(1536, true);
  const auto rule = rules(StandardParametrisation(), model);
  EXPECT_TRUE(fixed(StandardParametrisation(), model).empty());
  expect_rule(rule.at("embedding.weight"), {0.1, 1, 1, 1}, "embedding");
  expect_rule(rule.at("layers.0.mlp.up.weight"), {0.1, 1, 1, 1}, "up");
  expect_rule(rule.at("layers.0.mlp.down.weight"), {0.1 / std::sqrt(96), 1, 1, 1}, "down");
  expect_rule(rule.at("layers.0.mlp_norm.weight"), {0, 1, 1, 0}, "gain");
}

// The published values of Xmodel-2.5 (width 1536, m = 6, 48 layers): deviations 0.0408 and 0.0102, rates 0.01 and
// 0.0016667, multipliers 12, 0.2021, 1/6 and 1/64. Matrices that write to the residual stream have no width factor.
TEST(Parametrisation, XmodelHasThePublishedNumbers) {
  const model::ModelNode model = llama(1536, true);
  const XmodelParametrisation xmodel;
  const auto multipliers = fixed(xmodel, model);
  EXPECT_EQ(multipliers.at("embedding.multiplier"), 12);
  EXPECT_NEAR(multipliers.at("layer.attention_residual.multiplier"), 0.2021, 5e-5);
  EXPECT_EQ(multipliers.at("layer.mlp_residual.multiplier"), multipliers.at("layer.attention_residual.multiplier"));
  EXPECT_NEAR(multipliers.at("head.multiplier"), 1.0 / 6, 1e-15);
  EXPECT_EQ(multipliers.at("layer.attention.scale"), 1.0 / 64);
  const auto rule = rules(xmodel, model);
  expect_rule(rule.at("embedding.weight"), {0.1, 1, 1, 1}, "tied");
  for (const std::string matrix : {"attention.query", "attention.key", "attention.value", "mlp.gate", "mlp.up"}) {
    EXPECT_NEAR(rule.at("layers.3." + matrix + ".weight").standard_deviation, 0.0408, 5e-5) << matrix;
    EXPECT_NEAR(0.01 * rule.at("layers.3." + matrix + ".weight").rate, 0.0016667, 5e-8) << matrix;
  }
  for (const std::string matrix : {"attention.output", "mlp.down"}) {
    EXPECT_NEAR(rule.at("layers.3." + matrix + ".weight").standard_deviation, 0.0102, 5e-5) << matrix;
    EXPECT_EQ(rule.at("layers.3." + matrix + ".weight").decay, 1) << matrix;
  }
  expect_rule(rule.at("final_norm.weight"), {0, 1.0 / 6, 1, 0}, "gain");
  expect_rule(rules(xmodel, model, Muon()).at("layers.3.mlp.up.weight"), rule.at("layers.3.mlp.up.weight"), "Muon");
}

// One row of the table in docs/parametrisation.md each, at m = 4: deviation, rate, epsilon, decay.
TEST(Parametrisation, MupFollowsItsTable) {
  const model::ModelNode model = llama(1024, false, 8);
  MupParametrisation mup;
  mup.base_width = 256;
  mup.output_multiplier = 2;
  const auto rule = rules(mup, model);
  expect_rule(rule.at("embedding.weight"), {0.1, 1, 0.25, 1}, "embedding");
  expect_rule(rule.at("head.weight"), {0.1, 1, 0.25, 1}, "head");
  expect_rule(rule.at("layers.0.attention.query.weight"), {0.05, 0.25, 0.25, 4}, "query");
  expect_rule(rule.at("layers.0.attention.output.weight"), {0.0125, 0.25, 0.25, 4}, "output");
  expect_rule(rule.at("layers.0.attention_norm.weight"), {0, 1, 0.25, 0}, "gain");
  const auto multipliers = fixed(mup, model);
  EXPECT_EQ(multipliers.at("head.multiplier"), 0.5);
  EXPECT_EQ(multipliers.at("embedding.multiplier"), 1);
  EXPECT_EQ(multipliers.at("layer.attention.scale"), 1.0 / 8) << "as ever at the base head_dim";
  mup.base_head_dim = 16;
  EXPECT_EQ(fixed(mup, model).at("layer.attention.scale"), 4.0 / 64);
}

TEST(Parametrisation, MupAtItsBaseWidthIsStandard) {
  const model::ModelNode model = llama(512, true, 8);
  const auto standard = rules(StandardParametrisation(), model);
  for (const auto& [path, rule] : rules(MupParametrisation(), model)) expect_rule(rule, standard.at(path), path);
  for (const auto& [path, value] : fixed(MupParametrisation(), model)) {
    EXPECT_EQ(value, path == "layer.attention.scale" ? 0.125 : 1) << path;
  }
}

TEST(Parametrisation, MupDividesBySqrtOfTheDepthOnlyWhereAsked) {
  model::ModelNode model = llama(1024, false, 8);
  model.initializer.output_projections = "same";
  MupParametrisation mup;
  mup.base_width = 256;
  EXPECT_NEAR(rules(mup, model).at("layers.0.mlp.down.weight").standard_deviation, 0.05, 1e-12);
}

// Updates must keep the spectral norm sqrt(out / in) at every width. Adam's has rank one, so its norm is the root mean
// square times sqrt(out in); Muon's is orthogonal, so its norm is what multiplies it.
TEST(Parametrisation, RatesKeepTheSpectralNormOfUpdatesOverWidths) {
  const auto norm = [](const OptimizerNode& optimizer, int64_t width) {
    const model::ModelNode model = llama(width, true, 2);
    SpectralParametrisation spectral;
    spectral.base_width = 256;
    const double rate = rules(spectral, model, optimizer).at("layers.0.mlp.up.weight").rate;
    const auto in = static_cast<double>(width), out = in * 5 / 2;
    const auto* muon = dynamic_cast<const Muon*>(&optimizer);
    if (muon == nullptr) return rate * std::sqrt(out * in);
    return rate * muon->scale_of(width * 5 / 2, width);
  };
  const double adamw = norm(AdamW(), 256);
  for (const int64_t width : {512, 1024, 2048}) EXPECT_NEAR(norm(AdamW(), width), adamw, 1e-9) << width;
  for (const std::string scale : {"adamw", "original", "spectral"}) {
    Muon muon;
    muon.scale = scale;
    const double base = norm(muon, 256);
    for (const int64_t width : {512, 1024, 2048}) EXPECT_NEAR(norm(muon, width), base, 1e-9) << scale << width;
  }
}

// A gaussian matrix (A, B) of deviation s has the spectral norm s (sqrt(A) + sqrt(B)): between one and two times
// sqrt(A / B) whatever the shape.
TEST(Parametrisation, SpectralKeepsTheNormOfFreshMatrices) {
  model::ModelNode model = llama(1024, true, 2);
  model.initializer.output_projections = "same";
  const model::ModelDescription description = model::describe(model);
  const auto rule = rules(SpectralParametrisation(), model);
  for (const model::ParameterDescription& parameter : description.parameters) {
    if (!is_hidden_matrix(parameter)) continue;
    const auto in = static_cast<double>(parameter.fan_in), out = static_cast<double>(parameter.fan_out);
    const double norm = rule.at(parameter.path).standard_deviation * (std::sqrt(in) + std::sqrt(out));
    EXPECT_GE(norm, std::sqrt(out / in)) << parameter.path;
    EXPECT_LE(norm, 2 * std::sqrt(out / in) + 1e-12) << parameter.path;
  }
}

TEST(Parametrisation, FactorsOfAClassMultiplyTheKinds) {
  const auto read = [](const std::string& text) {
    StandardParametrisation node;
    config::Origins origins;
    config::apply(config::parse_toml(text, "p.toml"), node, origins);
    return node;
  };
  const model::ModelNode model = llama(256, false, 2);
  const auto rule = rules(read("[[classes]]\nkind='head'\ninit=0.5\nrate=2\nepsilon=4\ndecay=8"), model);
  expect_rule(rule.at("head.weight"), {0.05, 2, 4, 8}, "head");
  expect_rule(rule.at("embedding.weight"), {0.1, 1, 1, 1}, "embedding");
  EXPECT_THROW(rules(read("[[classes]]\nkind='tied'\nrate=2"), model), InputError) << "the model has none";
  EXPECT_THROW(rules(read("[[classes]]\nkind='head'\n[[classes]]\nkind='head'"), model), InputError);
  EXPECT_THROW(read("[[classes]]\nkind='heads'"), InputError) << "no such class";
}

TEST(Parametrisation, DeviationsReachTheDescription) {
  const model::ModelNode model = llama(512, true, 2);
  MupParametrisation mup;
  mup.base_width = 128;
  model::ModelDescription description = model::describe(model);
  set_deviations(description, parameter_rules(mup, model, description, AdamW()));
  for (const model::ParameterDescription& parameter : description.parameters) {
    const double wanted = parameter.path == "embedding.weight"                          ? 0.1
                          : parameter.parameter_class == model::ParameterClass::kVector ? 0
                          : parameter.writes_residual                                   ? 0.025
                                                                                        : 0.05;
    EXPECT_NEAR(parameter.initializer.standard_deviation, wanted, 1e-12) << parameter.path;
  }
}

// The root mean square of an orthogonal (A, B) is 1 / sqrt(max(A, B)); 0.2 sqrt(max(A, B)) makes it 0.2.
TEST(Optimizer, UpdateSizes) {
  const model::ModelDescription description = model::describe(llama(256, true, 2));
  for (const model::ParameterDescription& parameter : description.parameters) {
    const bool matrix = is_hidden_matrix(parameter);
    EXPECT_NEAR(AdamW().update_size(parameter), 0.2294, 5e-5) << parameter.path;
    EXPECT_NEAR(Muon().update_size(parameter), matrix ? 0.2 : 0.2294, 5e-5) << parameter.path;
  }
}

}  // namespace
}  // namespace weft::recipe
