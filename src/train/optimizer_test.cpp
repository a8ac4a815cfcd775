#include "train/optimizer.h"

#include <limits>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "model/describe.h"
#include "run/timetable.h"
#include "train/initial_weights.h"
#include "train/small_run.h"

namespace weft::train {
namespace {

struct Trained {
  explicit Trained(run::RunNode configuration)
      : run(std::move(configuration)),
        timetable(run::timetable_of(run)),
        model(run::describe(run)),
        parameters(model, frozen_parameters(run.train, model), at::kFloat, at::kCPU),
        optimizer(timetable, run::parameter_rules(run, model), model, parameters) {
    initialize_parameters(parameters, model, run.train);
    parameters.begin_step();
    parameters.finish_gradients();
    for (const auto& group : parameters.groups()) group.gradient.fill_(0.5);
  }
  run::RunNode run;
  recipe::Timetable timetable;
  model::ModelDescription model;
  nn::ParameterStore parameters;
  RunOptimizer optimizer;
};

TEST(RunOptimizer, WhatIsNotANumberChangesNothingAndNamesTheStep) {
  Trained trained(small_run());
  const uint64_t before = trained.parameters.parameter_hash();
  const double nan = std::numeric_limits<double>::quiet_NaN(), infinity = std::numeric_limits<double>::infinity();
  for (const auto& [loss, norm] : {std::pair(nan, 1.0), std::pair(infinity, 1.0), std::pair(1.0, nan)}) {
    try {
      trained.optimizer.apply(trained.parameters, {11, loss, norm});
      FAIL();
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("step 12: "), std::string::npos) << error.what();
      EXPECT_EQ(error.exit_code(), ExitCode::kFailed);
    }
  }
  EXPECT_EQ(trained.parameters.parameter_hash(), before);
}

TEST(RunOptimizer, RateIsThePhasesTimesTheOptimizers) {
  run::RunNode run = small_run();
  run.optimizer->learning_rate = 0.5;
  recipe::LinearPhase warm_up;
  warm_up.steps = 4;
  warm_up.start = 0.0;
  warm_up.end = 1.0;
  run.phases.slots.emplace_back(warm_up);
  const Trained trained(std::move(run));
  EXPECT_DOUBLE_EQ(trained.optimizer.learning_rate(0), 0.125);
  EXPECT_DOUBLE_EQ(trained.optimizer.learning_rate(3), 0.5);
  EXPECT_DOUBLE_EQ(trained.optimizer.learning_rate(100), 0.5);
}

// What one step changes follows from the parameter's class: Adam's first step is the rate itself, whatever the
// gradient, plus the share that decays.
TEST(RunOptimizer, EachClassLearnsAtItsRate) {
  run::RunNode run = small_run();
  run.model.head = model::TiedHead();
  run.model.positions = 4;
  run.model.position = model::LearnedPositions();  // beside the tied table, and of another class
  recipe::XmodelParametrisation xmodel;
  xmodel.base_width = 2;  // m = 4
  run.parametrisation = xmodel;
  recipe::LinearPhase phase;
  phase.steps = 1;
  phase.start = 0.0;
  phase.end = 0.5;
  auto tied = std::make_unique<recipe::OfClass<recipe::ClassRates, model::ParameterClass::kTied>>();
  tied->end = 0.25;
  phase.rates.slots.emplace_back().put(std::move(tied));
  run.phases.slots.emplace_back(phase);
  run.optimizer->learning_rate = 0.01;
  Trained trained(std::move(run));
  std::vector<at::Tensor> before;
  for (int index = 0; index < static_cast<int>(trained.parameters.size()); ++index) {
    before.push_back(trained.parameters.master(index).clone());
  }
  trained.optimizer.apply(trained.parameters, {0, 1.0, 2.0});
  for (size_t index = 0; index < before.size(); ++index) {
    const model::ParameterDescription& parameter = trained.model.parameters[index];
    const bool tied_table = parameter.path == "embedding.weight", position = parameter.path == "position.weight";
    const double rate = 0.01 * (position ? 0.5 : tied_table ? 0.25 : 0.125);
    const double decay = parameter.shape.size() == 2 ? 0.1 : 0;
    const at::Tensor wanted = before[index] * (1 - rate * decay) - rate;
    EXPECT_TRUE(at::allclose(trained.parameters.master(static_cast<int>(index)), wanted, 1e-5, 1e-7)) << parameter.path;
  }
}

TEST(RunOptimizer, StateNamesEveryParameterThatLearns) {
  run::RunNode run = small_run();
  run.train.frozen = {"layers.0.*"};
  Trained trained(std::move(run));
  trained.optimizer.apply(trained.parameters, {0, 1.0, 2.0});
  std::map<std::string, int> seen;
  for (const optim::StateTensor& tensor : trained.optimizer.state()) {
    ++seen[tensor.path];
    EXPECT_GT(tensor.tensor.abs().min().item<double>(), 0) << tensor.name << " of " << tensor.path;
  }
  for (size_t index = 0; index < trained.model.parameters.size(); ++index) {
    const std::string& path = trained.model.parameters[index].path;
    EXPECT_EQ(seen[path], path.starts_with("layers.0.") ? 0 : 2) << path;
  }
  EXPECT_EQ(trained.optimizer.groups(trained.parameters)[0].updates, 1);
}

TEST(FrozenParameters, PatternsMustMatchAndLeaveSomething) {
  run::RunNode run = small_run();
  const model::ModelDescription model = model::describe(run.model);
  run.train.frozen = {"layers.?.mlp.*", "embedding.weight"};
  const std::vector<bool> frozen = frozen_parameters(run.train, model);
  EXPECT_EQ(std::count(frozen.begin(), frozen.end(), true), 7);
  run.train.frozen = {"layers.*", "layer.0.*"};
  EXPECT_THROW((void)frozen_parameters(run.train, model), InputError);
  run.train.frozen = {"*"};
  EXPECT_THROW((void)frozen_parameters(run.train, model), InputError);
}

}  // namespace
}  // namespace weft::train
