#include "recipe/phase.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace weft::recipe {
namespace {

// Calls `with(phase, first step, start factor, end factor)` in order until it says stop (true).
template <class With>
void walk(const Phases& phases, With with) {
  int64_t first = 0;
  double factor = 1;
  for (const auto& phase : phases.slots) {
    const double start = phase->start.value_or(factor), end = phase->end_factor(start);
    if (with(*phase, first, start, end)) return;
    first += phase->steps;
    factor = end;
  }
}

}  // namespace

const config::KindList& PhaseNode::kinds() {
  static const config::KindList kinds =
      config::KindList::of<ConstantPhase, LinearPhase, CosinePhase, ExponentialPhase, SquareRootPhase>();
  return kinds;
}

void PhaseNode::fields(config::FieldList& list) {
  list.add("steps", steps, config::Hint::kCore, "steps", "length of the phase").at_least(1).at_most(1e12);
  list.add("start", start, config::Hint::kCore, "x learning rate",
           "factor at the start; unset: where the phase before ended, 1 for the first")
      .at_least(0)
      .at_most(1e6);
}

void ChangingPhase::fields(config::FieldList& list) {
  PhaseNode::fields(list);
  list.add("end", end, config::Hint::kCore, "x learning rate", "factor at the last step").at_least(0).at_most(1e6);
}

double CosinePhase::progress(double r) const { return (1 - std::cos(std::numbers::pi * r)) / 2; }

double ExponentialPhase::progress(double r) const { return 2 - 2 * std::exp2(-r); }

double SquareRootPhase::progress(double r) const { return std::sqrt(r); }

double rate_factor(const Phases& phases, int64_t step) {
  double factor = 1;
  walk(phases, [&](const PhaseNode& phase, int64_t first, double start, double end) {
    if (step >= first + phase.steps) {
      factor = end;
      return false;
    }
    const double r = static_cast<double>(step - first + 1) / static_cast<double>(phase.steps.get());
    factor = r == 1 ? end : start + (end - start) * phase.progress(r);
    return true;
  });
  return factor;
}

int64_t covered_steps(const Phases& phases) {
  int64_t steps = 0;
  for (const auto& phase : phases.slots) steps += phase->steps;
  return steps;
}

int64_t stable_steps(const Phases& phases, int64_t steps) {
  int64_t stable = steps;
  walk(phases, [&](const PhaseNode&, int64_t first, double start, double end) {
    if (end >= start) return false;
    stable = std::min(first, steps);
    return true;
  });
  return stable;
}

}  // namespace weft::recipe
