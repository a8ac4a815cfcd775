// The learning rate as a pure function of the step: a list of phases, each a shape between two factors of the
// optimizer's rate. No state exists, so a run can be resumed or branched at any step.
//
// Step t of a phase of n steps (t from 0) stands at r = (t + 1) / n of it: the last step of a phase has exactly its end
// factor, and a warm-up from 0 wastes no step. factor = start + (end - start) * progress(r).
#pragma once

#include <cstdint>
#include <optional>

#include "config/node.h"

namespace weft::recipe {

struct PhaseNode : config::Node {
  static const config::KindList& kinds();

  config::Required<int64_t> steps;
  std::optional<double> start;  // factor; unset: where the phase before ended, 1 for the first

  // The factor at the end, given the one at the start.
  [[nodiscard]] virtual double end_factor(double start_factor) const = 0;
  // The share of the way from start to end, from progress(0) = 0 to progress(1) = 1.
  [[nodiscard]] virtual double progress(double r) const = 0;

  void fields(config::FieldList& list) override;
};

// The stable phase: the factor stays.
struct ConstantPhase : PhaseNode {
  WEFT_NODE(ConstantPhase, "constant")
  [[nodiscard]] double end_factor(double start_factor) const override { return start_factor; }
  [[nodiscard]] double progress(double) const override { return 0; }
};

// A phase that goes somewhere.
struct ChangingPhase : PhaseNode {
  config::Required<double> end;
  [[nodiscard]] double end_factor(double) const override { return end; }
  void fields(config::FieldList& list) override;
};

// progress = r: warm-ups, and linear decay.
struct LinearPhase : ChangingPhase {
  WEFT_NODE(LinearPhase, "linear")
  [[nodiscard]] double progress(double r) const override { return r; }
};

// progress = (1 - cos(pi r)) / 2.
struct CosinePhase : ChangingPhase {
  WEFT_NODE(CosinePhase, "cosine")
  [[nodiscard]] double progress(double r) const override;
};

// progress = 2 - 2 * 0.5^r: what Megatron-LM calls exponential in its warmup-stable-decay schedule; one half-life,
// stretched to reach the end exactly. Xmodel-2.5 decays with it.
struct ExponentialPhase : ChangingPhase {
  WEFT_NODE(ExponentialPhase, "exponential")
  [[nodiscard]] double progress(double r) const override;
};

// progress = sqrt(r): the "1 - sqrt" decay of llm.c's warmup-stable-decay schedule.
struct SquareRootPhase : ChangingPhase {
  WEFT_NODE(SquareRootPhase, "sqrt")
  [[nodiscard]] double progress(double r) const override;
};

using Phases = config::SlotList<PhaseNode>;

// The factor of the optimizer's rate at a step (from 0). Behind the last phase its end factor stays; without phases it
// is 1.
[[nodiscard]] double rate_factor(const Phases& phases, int64_t step);

// Steps that all phases together cover.
[[nodiscard]] int64_t covered_steps(const Phases& phases);

// Steps before the first phase that lowers the rate, at most `steps`: warm-up and stable phases. `steps` if nothing
// decays.
[[nodiscard]] int64_t stable_steps(const Phases& phases, int64_t steps);

}  // namespace weft::recipe
