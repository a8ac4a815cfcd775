#include "recipe/phase.h"

#include <cmath>
#include <gtest/gtest.h>

#include "config/toml.h"
#include "config/tree.h"
#include "recipe/optimizer_node.h"

namespace weft::recipe {
namespace {

struct Schedule : config::Node {
  Phases phases;
  config::Slot<OptimizerNode> optimizer = AdamW();
  WEFT_NODE(Schedule, "schedule")
  void fields(config::FieldList& list) override {
    list.add("phases", phases, config::Hint::kCore, "phases");
    list.add("optimizer", optimizer, config::Hint::kCore, "optimizer");
  }
};

Schedule read(const std::string& text) {
  Schedule schedule;
  config::Origins origins;
  config::apply(config::parse_toml(text, "s.toml"), schedule, origins);
  return schedule;
}

TEST(Phase, WithoutPhasesTheRateIsConstant) { EXPECT_EQ(rate_factor(Phases(), 1000), 1); }

TEST(Phase, AWarmUpWastesNoStepAndEndsWhole) {
  const Phases phases =
      read("[[phases]]\nkind='linear'\nsteps=4\nstart=0\nend=1\n[[phases]]\nkind='constant'\nsteps=2").phases;
  const std::vector<double> expected = {0.25, 0.5, 0.75, 1, 1, 1, 1};
  for (size_t step = 0; step < expected.size(); ++step) {
    EXPECT_EQ(rate_factor(phases, static_cast<int64_t>(step)), expected[step]) << step;
  }
}

// The published schedule of Xmodel-2.5: 1.667e-3 falls to a sixteenth within 20,000 steps; the values at a quarter, a
// half and three quarters are those of Megatron-LM's formula.
TEST(Phase, ExponentialIsMegatronsHalfLife) {
  const Phases phases =
      read("[[phases]]\nkind='constant'\nsteps=10\n[[phases]]\nkind='exponential'\nsteps=20000\nend=0.0625").phases;
  const double rate = 0.01 / 6;
  EXPECT_NEAR(rate * rate_factor(phases, 10 + 4999), 1.1695e-3, 5e-8);
  EXPECT_NEAR(rate * rate_factor(phases, 10 + 9999), 7.514e-4, 5e-8);
  EXPECT_NEAR(rate * rate_factor(phases, 10 + 14999), 3.998e-4, 5e-8);
  EXPECT_EQ(rate_factor(phases, 10 + 19999), 0.0625);
  EXPECT_EQ(rate_factor(phases, 10 + 20000), 0.0625);
}

// One row = kind, r, and the factor on the way from 1 to 0.
TEST(Phase, ShapesHaveTheirClosedForms) {
  const std::vector<std::tuple<std::string, int, double>> rows = {
      {"linear", 25, 0.75}, {"cosine", 50, 0.5}, {"cosine", 25, (1 + std::sqrt(0.5)) / 2},
      {"sqrt", 25, 0.5},    {"sqrt", 81, 0.1},   {"exponential", 100, 0},
  };
  for (const auto& [kind, step, factor] : rows) {
    const Phases phases = read("[[phases]]\nkind='" + kind + "'\nsteps=100\nend=0").phases;
    EXPECT_NEAR(rate_factor(phases, step - 1), factor, 1e-15) << kind << " " << step;
  }
}

TEST(Phase, StableStepsEndWhereTheRateFalls) {
  const Phases phases = read(
                            "[[phases]]\nkind='linear'\nsteps=4\nstart=0\nend=1\n[[phases]]\nkind='constant'\nsteps=6\n"
                            "[[phases]]\nkind='sqrt'\nsteps=5\nend=0")
                            .phases;
  EXPECT_EQ(covered_steps(phases), 15);
  EXPECT_EQ(stable_steps(phases, 15), 10);
  EXPECT_EQ(stable_steps(phases, 7), 7);
  EXPECT_EQ(stable_steps(Phases(), 7), 7);
}

TEST(Phase, MistakesAreNamed) {
  EXPECT_THROW(read("[[phases]]\nkind='linear'\nsteps=0\nend=1"), InputError);
  EXPECT_THROW(read("[[phases]]\nkind='constant'\nsteps=1\nend=1"), InputError);
  EXPECT_THROW(read("[optimizer]\nbetas=[0.9]"), InputError);
  EXPECT_THROW(read("[optimizer]\nbetas=[0.9, 1.0]"), InputError);
  const Phases unset = read("[[phases]]\nkind='linear'\nsteps=5").phases;
  EXPECT_THROW(static_cast<void>(rate_factor(unset, 0)), InputError);
}

}  // namespace
}  // namespace weft::recipe
