// What holds at each step of a run: rates, batch, context, mixture, optimizer and precision, as pure functions of the
// step. No state exists.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "recipe/phase.h"

namespace weft::recipe {

// What the run says where a phase says nothing.
struct PhaseDefaults {
  int64_t global_batch = 1;          // sequences
  int64_t context = 1;               // tokens
  std::vector<double> weights = {};  // of the sources; empty: they are one
  size_t sources = 0;                // entries of data.sources
  std::string precision = "fp32";
  const OptimizerNode* optimizer = nullptr;
};

// Factors of the optimizer's rate at both ends of a phase.
struct FactorEnds {
  double start = 1, end = 1;
  friend bool operator==(const FactorEnds&, const FactorEnds&) = default;
};

// A phase with everything resolved. Steps, samples and tokens count from 0 at the start of the run; tokens are batch x
// context.
struct Stretch {
  const PhaseNode* phase = nullptr;  // null: a run without phases
  int64_t first_step = 0, steps = 0;
  int64_t first_sample = 0, first_token = 0;
  int64_t global_batch = 1, context = 1;
  std::vector<double> weights;
  std::string precision;
  const OptimizerNode* optimizer = nullptr;
  FactorEnds factors;  // of classes without entries of their own
  std::array<FactorEnds, kClassNames.size()> of_class;

  [[nodiscard]] int64_t tokens_per_step() const { return global_batch * context; }
};

class Timetable {
 public:
  // Both outlive it. InputError names the phase and the key that is wrong.
  Timetable(const Phases& phases, const PhaseDefaults& defaults);

  [[nodiscard]] const std::vector<Stretch>& stretches() const { return stretches_; }
  // Behind the last phase what held there stays. Steps count from 0.
  [[nodiscard]] const Stretch& at(int64_t step) const;
  // The factor of the optimizer's rate: of a class, or of those without entries of their own.
  [[nodiscard]] double rate_factor(int64_t step) const;
  [[nodiscard]] double rate_factor(int64_t step, model::ParameterClass parameter_class) const;
  // Whether both have the same factors at all steps.
  [[nodiscard]] bool same_factors(model::ParameterClass left, model::ParameterClass right) const;
  // Of the steps 0 .. step - 1.
  [[nodiscard]] int64_t samples_before(int64_t step) const;
  [[nodiscard]] int64_t tokens_before(int64_t step) const;

  // Steps before the first phase that lowers a rate, at most `steps`: warm-up and stable phases.
  [[nodiscard]] int64_t stable_steps(int64_t steps) const;
  // Steps that all phases together cover.
  [[nodiscard]] int64_t covered_steps() const;

 private:
  void add(const PhaseNode* phase, const PhaseDefaults& defaults, size_t index);

  std::vector<Stretch> stretches_;
};

}  // namespace weft::recipe
