// The exact test of a parametrisation's parts: a factor t moved from a parameter's values into a multiplier behind it,
// with rate / t, epsilon x t and decay x t, leaves the training what it was. With t a power of two nothing rounds
// otherwise, so all bits are equal; with one of the factors forgotten they are not.
#include <cmath>
#include <map>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "execute/executor.h"
#include "kernel/random.h"
#include "nn/segments.h"
#include "run/timetable.h"
#include "schedule/schedule.h"
#include "train/initial_weights.h"
#include "train/optimizer.h"
#include "train/small_run.h"

namespace weft::train {
namespace {

struct Factors {
  double init = 1, rate = 1, epsilon = 1, decay = 1;
};

// The factors of values with t moved into a multiplier behind them.
Factors moved(double t) { return {1 / t, 1 / t, t, t}; }

struct Symmetry {
  std::string name;
  void (*change)(model::ModelNode& model, double t);  // the multipliers
  std::map<std::string, int> powers;                  // of t, by the end of the parameter's path
  bool tied = false;
};

model::GroupedQueryAttention& attention(model::ModelNode& model) {
  return dynamic_cast<model::GroupedQueryAttention&>(*model.layer.attention);
}

const std::vector<Symmetry>& symmetries() {
  using Model = model::ModelNode;
  static const std::vector<Symmetry> all = {
      {"embedding", [](Model& model, double t) { model.embedding.multiplier *= t; }, {{"embedding.weight", 1}}},
      {"head", [](Model& model, double t) { model.head->multiplier *= t; }, {{"head.weight", 1}}},
      {"tied",
       [](Model& model, double t) {
         model.embedding.multiplier *= t;
         model.head->multiplier *= t;
       },
       {{"embedding.weight", 1}},
       true},
      {"query",
       [](Model& model, double t) { attention(model).scale = t * attention(model).effective_scale(); },
       {{"query.weight", 1}}},
      {"query and key",
       [](Model& model, double t) { attention(model).scale = t * t * attention(model).effective_scale(); },
       {{"query.weight", 1}, {"key.weight", 1}}},
      {"attention.output",
       [](Model& model, double t) { model.layer.attention_residual.multiplier *= t; },
       {{"attention.output.weight", 1}}},
      {"mlp.down", [](Model& model, double t) { model.layer.mlp_residual.multiplier *= t; }, {{"mlp.down.weight", 1}}},
      {"value and output", [](Model&, double) {}, {{"value.weight", 1}, {"attention.output.weight", -1}}},
      {"up and down", [](Model&, double) {}, {{"mlp.up.weight", 1}, {"mlp.down.weight", -1}}},
  };
  return all;
}

nn::MicroBatch batch(int64_t vocabulary) {
  const at::Tensor tokens = kernel::random_words({3, 0}, 0, 2 * 9).view({2, 9}).remainder(vocabulary);
  nn::MicroBatch batch;
  batch.tokens = tokens.narrow(1, 0, 8).contiguous();
  batch.targets = tokens.narrow(1, 1, 8).contiguous();
  batch.positions = at::arange(8, at::kLong).expand({2, 8}).contiguous();
  batch.sample_ids = at::arange(2, at::kLong);
  batch.length = 8;
  return batch;
}

struct Outcome {
  std::vector<double> losses;
  std::map<std::string, at::Tensor> parameters;
};

// Twenty steps; `factors` by the end of a parameter's path.
Outcome trained(const run::RunNode& run, const std::map<std::string, Factors>& factors) {
  model::ModelDescription model = run::describe(run);
  std::vector<recipe::ParameterRule> rules = run::parameter_rules(run, model);
  for (size_t index = 0; index < rules.size(); ++index) {
    for (const auto& [ending, given] : factors) {
      if (!model.parameters[index].path.ends_with(ending)) continue;
      rules[index].standard_deviation *= given.init;
      rules[index].rate *= given.rate;
      rules[index].epsilon *= given.epsilon;
      rules[index].decay *= given.decay;
    }
  }
  recipe::set_deviations(model, rules);
  nn::ParameterStore parameters(model, frozen_parameters(run.train, model), at::kFloat, at::kCPU);
  parameters.initialize(1);
  execute::Executor executor(model, nn::build_segments(model), parameters);
  const recipe::Timetable timetable = run::timetable_of(run);
  RunOptimizer optimizer(timetable, rules, model, parameters);
  const schedule::Schedule schedule = schedule::expand(schedule::accumulate(model, 1), model);
  const nn::MicroBatch micro_batch = batch(run.model.vocabulary);
  Outcome outcome;
  for (int64_t step = 0; step < 20; ++step) {
    execute::StepInput input;
    input.micro_batches = {&micro_batch, 1};
    input.step = step;
    input.samples = 2;
    input.target_tokens = 16;
    input.optimizer = &optimizer;
    outcome.losses.push_back(executor.run(schedule, input).loss);
  }
  for (int index = 0; index < static_cast<int>(parameters.size()); ++index) {
    outcome.parameters[parameters.path(index)] = parameters.master(index);
  }
  return outcome;
}

run::RunNode base_run(bool tied) {
  run::RunNode run = small_run();
  if (tied) run.model.head = model::TiedHead();
  run.model.initializer.standard_deviation = 0.25;
  recipe::AdamW adamw;
  adamw.learning_rate = 0.02;
  adamw.epsilon = 1e-3;
  adamw.clip = 0;  // the norm of all gradients changes with a factor of some
  run.optimizer = adamw;
  return run;
}

TEST(AbcSymmetry, MovedFactorsOfTwoChangeNoBit) {
  for (const Symmetry& symmetry : symmetries()) {
    const run::RunNode base = base_run(symmetry.tied);
    const Outcome expected = trained(base, {});
    EXPECT_LT(expected.losses.back(), expected.losses.front() - 0.1);
    for (const double t : {0.5, 8.0}) {
      run::RunNode run = base;
      symmetry.change(run.model, t);
      std::map<std::string, Factors> factors;
      for (const auto& [ending, power] : symmetry.powers) factors[ending] = moved(std::pow(t, power));
      const Outcome found = trained(run, factors);
      EXPECT_EQ(found.losses, expected.losses) << symmetry.name << " " << t;
      for (const auto& [path, values] : expected.parameters) {
        double scale = 1;
        for (const auto& [ending, power] : symmetry.powers) {
          if (path.ends_with(ending)) scale = std::pow(t, power);
        }
        EXPECT_TRUE(at::equal(found.parameters.at(path) * scale, values)) << symmetry.name << " " << t << " " << path;
      }
    }
  }
}

TEST(AbcSymmetry, OneForgottenFactorShows) {
  for (const Symmetry& symmetry : symmetries()) {
    const run::RunNode base = base_run(symmetry.tied);
    const Outcome expected = trained(base, {});
    run::RunNode run = base;
    symmetry.change(run.model, 2);
    for (double Factors::*forgotten : {&Factors::init, &Factors::rate, &Factors::epsilon, &Factors::decay}) {
      std::map<std::string, Factors> factors;
      for (const auto& [ending, power] : symmetry.powers) factors[ending] = moved(std::pow(2.0, power));
      factors.begin()->second.*forgotten = 1;
      EXPECT_NE(trained(run, factors).losses, expected.losses) << symmetry.name;
    }
    // A multiplier, where there is one.
    std::map<std::string, Factors> factors;
    for (const auto& [ending, power] : symmetry.powers) factors[ending] = moved(std::pow(2.0, power));
    if (symmetry.powers.size() == 1) {
      EXPECT_NE(trained(base, factors).losses, expected.losses) << symmetry.name;
    }
  }
}

}  // namespace
}  // namespace weft::train
