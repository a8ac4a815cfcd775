// The [[phases]] of a run: how long each is, how its rate goes, and what else holds while it lasts. What a step sees is
// a pure function of the step (recipe/timetable.h), so a run can be resumed or branched anywhere.
//
// Step t of a phase of n steps (t from 0) stands at r = (t + 1) / n of it: the last step of a phase has exactly its end
// factor, and a warm-up from 0 wastes no step.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/node.h"
#include "recipe/optimizer_node.h"
#include "recipe/parameter_classes.h"

namespace weft::recipe {

// Where one class's factor starts and ends, instead of the phase's.
struct ClassRates : config::Node {
  static const config::KindList& kinds() { return class_kinds<ClassRates>(); }
  [[nodiscard]] virtual model::ParameterClass of() const = 0;
  std::optional<double> start, end;
  void fields(config::FieldList& list) override;
};

struct PhaseNode : config::Node {
  static const config::KindList& kinds();

  std::optional<int64_t> steps, tokens;  // one of them; tokens are rounded up to whole steps
  std::optional<double> start;           // factor; unset: where the phase before ended, 1 for the first
  config::SlotList<ClassRates> rates;
  std::optional<int64_t> global_batch;    // sequences; unset: train.global_batch
  std::optional<int64_t> context;         // tokens; unset: data.context
  std::vector<double> weights;            // of data.sources; empty: data.weights
  std::optional<std::string> precision;   // unset: train.precision
  config::Slot<OptimizerNode> optimizer;  // empty: [optimizer]

  // The factor at the end, given the one at the start and a class's own end, if it has one.
  [[nodiscard]] virtual double end_factor(double start_factor, std::optional<double> end) const = 0;
  // The factor at the share r of the way, exactly `from` at r = 0 and `to` at r = 1.
  [[nodiscard]] double factor(double from, double to, double r) const;

  void fields(config::FieldList& list) override;

 protected:
  [[nodiscard]] virtual double between(double from, double to, double r) const = 0;
};

// The stable phase: the factor stays.
struct ConstantPhase : PhaseNode {
  WEFT_NODE(ConstantPhase, "constant")
  [[nodiscard]] double end_factor(double start_factor, std::optional<double>) const override { return start_factor; }

 protected:
  [[nodiscard]] double between(double from, double, double) const override { return from; }
};

// A phase that goes somewhere: start + (end - start) * progress(r).
struct ChangingPhase : PhaseNode {
  config::Required<double> end;
  [[nodiscard]] double end_factor(double, std::optional<double> given) const override { return given.value_or(end); }
  void fields(config::FieldList& list) override;

 protected:
  [[nodiscard]] double between(double from, double to, double r) const override {
    return from + (to - from) * progress(r);
  }
  [[nodiscard]] virtual double progress(double r) const = 0;
};

// progress = r: warm-ups, and linear decay.
struct LinearPhase : ChangingPhase {
  WEFT_NODE(LinearPhase, "linear")
 protected:
  [[nodiscard]] double progress(double r) const override { return r; }
};

// progress = (1 - cos(pi r)) / 2.
struct CosinePhase : ChangingPhase {
  WEFT_NODE(CosinePhase, "cosine")
 protected:
  [[nodiscard]] double progress(double r) const override;
};

// progress = 2 - 2 * 0.5^r: what Megatron-LM calls exponential in its warmup-stable-decay schedule; one half-life,
// stretched to reach the end exactly. Xmodel-2.5 decays with it.
struct ExponentialPhase : ChangingPhase {
  WEFT_NODE(ExponentialPhase, "exponential")
 protected:
  [[nodiscard]] double progress(double r) const override;
};

// progress = sqrt(r): the "1 - sqrt" decay of llm.c's warmup-stable-decay schedule.
struct SquareRootPhase : ChangingPhase {
  WEFT_NODE(SquareRootPhase, "sqrt")
 protected:
  [[nodiscard]] double progress(double r) const override;
};

// start / sqrt(1 + r ((start / end)^2 - 1)): proportional to 1 / sqrt(step + c), with the c that leads from start to
// end. Both are above 0.
struct InverseSquareRootPhase : ChangingPhase {
  WEFT_NODE(InverseSquareRootPhase, "inverse_sqrt")
 protected:
  [[nodiscard]] double between(double from, double to, double r) const override;
  [[nodiscard]] double progress(double r) const override { return r; }
};

using Phases = config::SlotList<PhaseNode>;

}  // namespace weft::recipe
