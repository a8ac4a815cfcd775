#include "recipe/phase.h"

#include <cmath>
#include <numbers>

namespace weft::recipe {

using config::Hint;

namespace {

constexpr double kGreatestFactor = 1e6;
constexpr double kGreatestSteps = 1e12;
constexpr double kGreatestBatch = 1e9;

}  // namespace

const config::KindList& PhaseNode::kinds() {
  static const config::KindList kinds = config::KindList::of<ConstantPhase, LinearPhase, CosinePhase, ExponentialPhase,
                                                             SquareRootPhase, InverseSquareRootPhase>();
  return kinds;
}

void ClassRates::fields(config::FieldList& list) {
  list.add("start", start, Hint::kCore, "x learning rate",
           "factor at the start; unset: the phase's, or the class's before")
      .at_least(0)
      .at_most(kGreatestFactor);
  list.add("end", end, Hint::kCore, "x learning rate", "factor at the last step; unset: the phase's")
      .at_least(0)
      .at_most(kGreatestFactor);
}

void PhaseNode::fields(config::FieldList& list) {
  list.add("steps", steps, Hint::kCore, "steps", "length of the phase").at_least(1).at_most(kGreatestSteps);
  list.add("tokens", tokens, Hint::kCore, "tokens", "length of the phase instead of steps, up to a whole step")
      .at_least(1)
      .at_most(1e18);
  list.add("start", start, Hint::kCore, "x learning rate",
           "factor at the start; unset: where the phase before ended, 1 for the first")
      .at_least(0)
      .at_most(kGreatestFactor);
  list.add("rates", rates, Hint::kCore, "start and end of single classes of parameters");
  list.add("global_batch", global_batch, Hint::kCore, "sequences", "sequences a step; unset: train.global_batch")
      .at_least(1)
      .at_most(kGreatestBatch);
  list.add("context", context, Hint::kCore, "tokens", "tokens of a sequence; unset: data.context").at_least(1);
  list.add("weights", weights, Hint::kCore, "", "of the entries of data.sources; empty: data.weights").at_least(0);
  list.add("precision", precision, Hint::kCore, "", "of activations and products; unset: train.precision")
      .one_of({"fp32", "bf16", "fp8"});
  list.add("optimizer", optimizer, Hint::kCore, "what changes the parameters; none: as [optimizer] says")
      .may_be_empty();
}

double PhaseNode::factor(double from, double to, double r) const {
  if (r == 0) return from;
  return r == 1 ? to : between(from, to, r);
}

void ChangingPhase::fields(config::FieldList& list) {
  PhaseNode::fields(list);
  list.add("end", end, Hint::kCore, "x learning rate", "factor at the last step").at_least(0).at_most(kGreatestFactor);
}

double CosinePhase::progress(double r) const { return (1 - std::cos(std::numbers::pi * r)) / 2; }

double ExponentialPhase::progress(double r) const { return 2 - 2 * std::exp2(-r); }

double SquareRootPhase::progress(double r) const { return std::sqrt(r); }

double InverseSquareRootPhase::between(double from, double to, double r) const {
  const double ratio = from / to;
  return from / std::sqrt(1 + r * (ratio * ratio - 1));
}

}  // namespace weft::recipe
