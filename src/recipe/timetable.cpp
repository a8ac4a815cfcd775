#include "recipe/timetable.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "base/error.h"

namespace weft::recipe {
namespace {

// Enough for any run, and no sum of two of them leaves 63 bits.
constexpr double kGreatestTokens = 1e18;

[[noreturn]] void refuse(size_t index, const std::string& message) {
  throw InputError(fmt::format("phases.{}.{}", index, message));
}

void check_weights(const std::vector<double>& weights, const PhaseDefaults& defaults, size_t index) {
  if (defaults.weights.empty()) {
    refuse(index, "weights: without data.weights all of data.sources is one source; set data.weights");
  }
  if (weights.size() != defaults.sources) {
    refuse(index, fmt::format("weights: {} numbers for {} entries of data.sources", weights.size(), defaults.sources));
  }
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  if (!(sum > 0) || !std::isfinite(sum)) {
    refuse(index, fmt::format("weights: their sum is {}; at least one must be above 0", sum));
  }
}

int64_t steps_of(const PhaseNode& phase, const Stretch& stretch, size_t index) {
  if (phase.steps.has_value() == phase.tokens.has_value()) {
    refuse(index, phase.steps ? "steps and tokens both give the length of the phase; keep one"
                              : "steps is not set: a phase needs a length, in steps or in tokens");
  }
  if (phase.steps) return *phase.steps;
  return (*phase.tokens + stretch.tokens_per_step() - 1) / stretch.tokens_per_step();
}

FactorEnds ends_of(const PhaseNode& phase, const ClassRates* entry, double before, size_t index) {
  FactorEnds ends;
  ends.start = entry != nullptr && entry->start ? *entry->start : phase.start.value_or(before);
  const std::optional<double> own_end = entry != nullptr ? entry->end : std::nullopt;
  ends.end = phase.end_factor(ends.start, own_end);
  if (own_end && *own_end != ends.end) {
    refuse(index, fmt::format("rates: a phase of kind {} has no end of its own", phase.kind()));
  }
  if (phase.kind() == InverseSquareRootPhase::kKind && !(ends.start > 0 && ends.end > 0)) {
    refuse(index,
           fmt::format("end: an inverse square root leads from {} to {}; both must be above 0", ends.start, ends.end));
  }
  return ends;
}

double factor_at(const Stretch& stretch, const FactorEnds& ends, int64_t step) {
  if (stretch.phase == nullptr || step >= stretch.first_step + stretch.steps) return ends.end;
  const double r = static_cast<double>(step - stretch.first_step + 1) / static_cast<double>(stretch.steps);
  return stretch.phase->factor(ends.start, ends.end, r);
}

bool falls(const FactorEnds& ends, double before) { return ends.end < ends.start || ends.start < before; }

}  // namespace

Timetable::Timetable(const Phases& phases, const PhaseDefaults& defaults) {
  for (size_t index = 0; index < phases.slots.size(); ++index) add(phases.slots[index].get(), defaults, index);
  if (phases.slots.empty()) add(nullptr, defaults, 0);
}

void Timetable::add(const PhaseNode* phase, const PhaseDefaults& defaults, size_t index) {
  const Stretch* before = stretches_.empty() ? nullptr : &stretches_.back();
  Stretch stretch;
  stretch.phase = phase;
  stretch.global_batch = defaults.global_batch;
  stretch.context = defaults.context;
  stretch.weights = defaults.weights;
  stretch.precision = defaults.precision;
  stretch.optimizer = defaults.optimizer;
  if (before != nullptr) {
    stretch.first_step = before->first_step + before->steps;
    stretch.first_sample = before->first_sample + before->steps * before->global_batch;
    stretch.first_token = before->first_token + before->steps * before->tokens_per_step();
  }
  if (phase != nullptr) {
    stretch.global_batch = phase->global_batch.value_or(stretch.global_batch);
    stretch.context = phase->context.value_or(stretch.context);
    stretch.precision = phase->precision.value_or(stretch.precision);
    if (phase->optimizer) stretch.optimizer = phase->optimizer.get();
    if (!phase->weights.empty()) {
      check_weights(phase->weights, defaults, index);
      stretch.weights = phase->weights;
    }
    check_classes(phase->rates, fmt::format("phases.{}.rates", index));
    stretch.steps = steps_of(*phase, stretch, index);
    stretch.factors = ends_of(*phase, nullptr, before != nullptr ? before->factors.end : 1, index);
    for (size_t place = 0; place < kClassNames.size(); ++place) {
      const ClassRates* entry = entry_of(phase->rates, static_cast<model::ParameterClass>(place));
      stretch.of_class.at(place) =
          ends_of(*phase, entry, before != nullptr ? before->of_class.at(place).end : 1, index);
    }
  }
  const double tokens = static_cast<double>(stretch.first_token) + static_cast<double>(stretch.steps) *
                                                                       static_cast<double>(stretch.global_batch) *
                                                                       static_cast<double>(stretch.context);
  if (tokens > kGreatestTokens) {
    refuse(index,
           fmt::format("steps: {:.3g} tokens up to its end; at most {:.0g} can be counted", tokens, kGreatestTokens));
  }
  stretches_.push_back(std::move(stretch));
}

const Stretch& Timetable::at(int64_t step) const {
  const auto behind = std::ranges::upper_bound(stretches_, step, {}, &Stretch::first_step);
  return *std::prev(behind);
}

double Timetable::rate_factor(int64_t step) const {
  const Stretch& stretch = at(step);
  return factor_at(stretch, stretch.factors, step);
}

double Timetable::rate_factor(int64_t step, model::ParameterClass parameter_class) const {
  const Stretch& stretch = at(step);
  return factor_at(stretch, stretch.of_class.at(static_cast<size_t>(parameter_class)), step);
}

bool Timetable::same_factors(model::ParameterClass left, model::ParameterClass right) const {
  return std::ranges::all_of(stretches_, [&](const Stretch& stretch) {
    return stretch.of_class.at(static_cast<size_t>(left)) == stretch.of_class.at(static_cast<size_t>(right));
  });
}

int64_t Timetable::samples_before(int64_t step) const {
  const Stretch& stretch = at(step);
  return stretch.first_sample + (step - stretch.first_step) * stretch.global_batch;
}

int64_t Timetable::tokens_before(int64_t step) const {
  const Stretch& stretch = at(step);
  return stretch.first_token + (step - stretch.first_step) * stretch.tokens_per_step();
}

int64_t Timetable::stable_steps(int64_t steps) const {
  FactorEnds before;
  std::array<FactorEnds, kClassNames.size()> of_class_before;
  for (const Stretch& stretch : stretches_) {
    // A first phase starts where it says, which lowers nothing.
    const bool first = stretch.first_step == 0;
    bool lower = falls(stretch.factors, first ? 0 : before.end);
    for (size_t place = 0; place < kClassNames.size(); ++place) {
      lower = lower || falls(stretch.of_class.at(place), first ? 0 : of_class_before.at(place).end);
    }
    if (lower) return std::min(stretch.first_step, steps);
    before = stretch.factors;
    of_class_before = stretch.of_class;
  }
  return steps;
}

int64_t Timetable::covered_steps() const {
  const Stretch& last = stretches_.back();
  return last.first_step + last.steps;
}

}  // namespace weft::recipe
