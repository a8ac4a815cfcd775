#include "recipe/timetable.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "recipe/small_schedule.h"

namespace weft::recipe {
namespace {

using enum model::ParameterClass;

TEST(Timetable, WithoutPhasesEverythingIsTheRuns) {
  const Schedule schedule;
  const Timetable table = timetable(schedule);
  EXPECT_EQ(table.rate_factor(1000), 1);
  EXPECT_EQ(table.at(1000).global_batch, 4);
  EXPECT_EQ(table.at(1000).weights, (std::vector<double>{3, 1}));
  EXPECT_EQ(table.samples_before(1000), 4000);
  EXPECT_EQ(table.tokens_before(1000), 32000);
  EXPECT_EQ(table.stable_steps(7), 7);
}

TEST(Timetable, AWarmUpWastesNoStepAndEndsWhole) {
  const Schedule schedule =
      read("[[phases]]\nkind='linear'\nsteps=4\nstart=0\nend=1\n[[phases]]\nkind='constant'\nsteps=2");
  const Timetable table = timetable(schedule);
  const std::vector<double> expected = {0.25, 0.5, 0.75, 1, 1, 1, 1};
  for (size_t step = 0; step < expected.size(); ++step) {
    EXPECT_EQ(table.rate_factor(static_cast<int64_t>(step)), expected[step]) << step;
  }
}

constexpr const char* kFour = R"(
[[phases]]
kind = "linear"
steps = 4
start = 0.0
end = 1.0
[[phases]]
kind = "constant"
tokens = 481
global_batch = 8
[[phases]]
kind = "exponential"
steps = 10
end = 0.5
context = 16
weights = [0, 1]
precision = "bf16"
optimizer.kind = "muon"
optimizer.momentum = 0.9
[[phases.rates]]
kind = "embedding"
start = 0.8
end = 0.1
[[phases]]
kind = "linear"
steps = 2
end = 0.0
)";

// Step by step what the phases say, counted one by one.
TEST(Timetable, EachStepHasWhatItsPhaseSays) {
  const Schedule schedule = read(kFour);
  const Timetable table = timetable(schedule);
  ASSERT_EQ(table.stretches().size(), 4U);
  EXPECT_EQ(table.stretches()[1].steps, 8) << "481 tokens are seven steps of 64 and a bit";
  EXPECT_EQ(table.covered_steps(), 24);
  EXPECT_EQ(table.stable_steps(100), 12);
  EXPECT_EQ(table.stable_steps(3), 3);
  int64_t samples = 0, tokens = 0;
  for (int64_t step = 0; step < 30; ++step) {
    const Stretch& stretch = table.at(step);
    EXPECT_EQ(table.samples_before(step), samples) << step;
    EXPECT_EQ(table.tokens_before(step), tokens) << step;
    const bool third = step >= 12 && step < 22;
    EXPECT_EQ(stretch.global_batch, step >= 4 && step < 12 ? 8 : 4) << step;
    EXPECT_EQ(stretch.context, third ? 16 : 8) << step;
    EXPECT_EQ(stretch.weights, third ? (std::vector<double>{0, 1}) : (std::vector<double>{3, 1})) << step;
    EXPECT_EQ(stretch.precision, third ? "bf16" : "fp32") << step;
    EXPECT_EQ(stretch.optimizer->kind(), third ? "muon" : "adamw") << step;
    samples += stretch.global_batch;
    tokens += stretch.global_batch * stretch.context;
  }
}

TEST(Timetable, ClassesMayHaveEndsOfTheirOwn) {
  const Schedule schedule = read(kFour);
  const Timetable table = timetable(schedule);
  EXPECT_EQ(table.rate_factor(11, kEmbedding), 1);
  EXPECT_EQ(table.rate_factor(21, kEmbedding), 0.1);
  EXPECT_EQ(table.rate_factor(21, kHiddenMatrix), 0.5);
  EXPECT_EQ(table.rate_factor(21), 0.5);
  EXPECT_EQ(table.rate_factor(22, kEmbedding), 0.05) << "each goes on from where it stood";
  EXPECT_EQ(table.rate_factor(22, kHiddenMatrix), 0.25);
  EXPECT_TRUE(table.same_factors(kHiddenMatrix, kVector));
  EXPECT_FALSE(table.same_factors(kHiddenMatrix, kEmbedding));
}

TEST(Timetable, StableStepsEndWhereARateFalls) {
  const auto stable = [](const std::string& last) {
    const Schedule schedule = read("[[phases]]\nkind='linear'\nsteps=4\nstart=0\nend=1\n" + last);
    return timetable(schedule).stable_steps(100);
  };
  EXPECT_EQ(stable("[[phases]]\nkind='constant'\nsteps=6\n[[phases]]\nkind='sqrt'\nsteps=5\nend=0"), 10);
  EXPECT_EQ(stable("[[phases]]\nkind='constant'\nsteps=6"), 100);
  EXPECT_EQ(stable("[[phases]]\nkind='constant'\nsteps=6\nstart=0.5"), 4) << "a jump";
  EXPECT_EQ(stable("[[phases]]\nkind='linear'\nsteps=6\nend=1\n[[phases.rates]]\nkind='vector'\nend=0.5"), 4);
}

TEST(Timetable, MistakesNameThePhase) {
  const std::vector<std::pair<std::string, std::string>> rows = {
      {"kind='constant'", "phases.0.steps is not set"},
      {"kind='constant'\nsteps=1\ntokens=1", "phases.0.steps and tokens"},
      {"kind='linear'\nsteps=5", "is not set"},
      {"kind='constant'\nsteps=1\nweights=[0.0, 0.0]", "phases.0.weights: their sum is 0"},
      {"kind='constant'\nsteps=1\nweights=[1.0]", "phases.0.weights: 1 numbers for 2 entries"},
      {"kind='inverse_sqrt'\nsteps=1\nend=0", "phases.0.end: an inverse square root"},
      {"kind='constant'\nsteps=1\n[[phases.rates]]\nkind='head'\nend=0.5", "phases.0.rates: a phase of kind constant"},
      {"kind='constant'\nsteps=1\n[[phases.rates]]\nkind='head'\n[[phases.rates]]\nkind='head'",
       "head has two entries"},
      {"kind='constant'\nsteps=1000000000000\nglobal_batch=1000000", "phases.0.steps: "},
  };
  for (const auto& [text, reason] : rows) {
    const Schedule schedule = read("[[phases]]\n" + text);
    try {
      static_cast<void>(timetable(schedule));
      ADD_FAILURE() << text;
    } catch (const InputError& error) {
      EXPECT_NE(std::string(error.what()).find(reason), std::string::npos) << error.what();
    }
  }
  const Schedule schedule = read("[[phases]]\nkind='constant'\nsteps=1\nweights=[1.0, 2.0]");
  EXPECT_THROW(Timetable(schedule.phases, {.sources = 2, .optimizer = schedule.optimizer.get()}), InputError)
      << "without data.weights the entries are one source";
}

}  // namespace
}  // namespace weft::recipe
