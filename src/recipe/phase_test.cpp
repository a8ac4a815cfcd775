#include "recipe/phase.h"

#include <cmath>

#include <gtest/gtest.h>

#include "recipe/small_schedule.h"

namespace weft::recipe {
namespace {

struct Shape {
  std::string kind;
  double start, end;
  std::array<double, 3> between;  // at r = 0.25, 0.5 and 0.75
};

// Of closed forms, and for the exponential of the rates that Megatron-LM's formula gives for Xmodel-2.5's decay.
TEST(Phase, ShapesAtTheQuarters) {
  const double root = std::sqrt(0.5);
  const std::vector<Shape> shapes = {
      {"constant", 0.5, 0.5, {0.5, 0.5, 0.5}},
      {"linear", 0, 1, {0.25, 0.5, 0.75}},
      {"cosine", 1, 0, {(1 + root) / 2, 0.5, (1 - root) / 2}},
      {"exponential", 1, 0, {2 * std::pow(0.5, 0.25) - 1, 2 * root - 1, 2 * std::pow(0.5, 0.75) - 1}},
      {"sqrt", 1, 0, {0.5, 1 - root, 1 - std::sqrt(0.75)}},
      {"inverse_sqrt", 1, 0.25, {1 / std::sqrt(4.75), 1 / std::sqrt(8.5), 1 / std::sqrt(12.25)}},
  };
  for (const Shape& shape : shapes) {
    const std::string end = shape.kind == "constant" ? "" : "end=0";
    const Schedule schedule = read("[[phases]]\nkind='" + shape.kind + "'\nsteps=4\n" + end);
    const PhaseNode& phase = *schedule.phases.slots[0];
    EXPECT_EQ(phase.factor(shape.start, shape.end, 0), shape.start) << shape.kind;
    for (size_t quarter = 1; quarter < 4; ++quarter) {
      EXPECT_NEAR(phase.factor(shape.start, shape.end, static_cast<double>(quarter) / 4), shape.between.at(quarter - 1),
                  1e-15)
          << shape.kind << " " << quarter;
    }
    EXPECT_EQ(phase.factor(shape.start, shape.end, 1), shape.end) << shape.kind;
  }
}

// The published decay of Xmodel-2.5: from 1.667e-3 to a sixteenth within 20,000 steps.
TEST(Phase, ExponentialIsMegatronsHalfLife) {
  const Schedule schedule =
      read("[[phases]]\nkind='constant'\nsteps=10\n[[phases]]\nkind='exponential'\nsteps=20000\nend=0.0625");
  const Timetable table = timetable(schedule);
  const double rate = 0.01 / 6;
  EXPECT_NEAR(rate * table.rate_factor(10 + 4999), 1.1695e-3, 5e-8);
  EXPECT_NEAR(rate * table.rate_factor(10 + 9999), 7.514e-4, 5e-8);
  EXPECT_NEAR(rate * table.rate_factor(10 + 14999), 3.998e-4, 5e-8);
  EXPECT_EQ(table.rate_factor(10 + 19999), 0.0625);
  EXPECT_EQ(table.rate_factor(10 + 20000), 0.0625);
}

TEST(Phase, MistakesAreNamed) {
  EXPECT_THROW(read("[[phases]]\nkind='linear'\nsteps=0\nend=1"), InputError);
  EXPECT_THROW(read("[[phases]]\nkind='constant'\nsteps=1\nend=1"), InputError);
  EXPECT_THROW(read("[[phases]]\nkind='constant'\nsteps=1\nprecision='fp4'"), InputError);
  EXPECT_THROW(read("[[phases]]\nkind='constant'\nsteps=1\n[[phases.rates]]\nkind='hidden'\nend=1"), InputError);
  EXPECT_THROW(read("[optimizer]\nbetas=[0.9]"), InputError);
  EXPECT_THROW(read("[optimizer]\nbetas=[0.9, 1.0]"), InputError);
}

}  // namespace
}  // namespace weft::recipe
