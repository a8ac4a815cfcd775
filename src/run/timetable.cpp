#include "run/timetable.h"

#include <fmt/format.h>

#include "base/error.h"
#include "config/tree.h"
#include "model/describe.h"
#include "run/layout.h"

namespace weft::run {

recipe::Timetable timetable_of(const RunNode& run) {
  recipe::PhaseDefaults defaults;
  defaults.global_batch = run.train.global_batch;
  defaults.context = run.data.context;
  defaults.weights = run.data.weights;
  defaults.sources = run.data.sources.size();
  defaults.precision = run.train.precision;
  defaults.optimizer = run.optimizer.get();
  return {run.phases, defaults};
}

std::vector<data::DataPhase> data_phases(const RunNode& run) {
  const recipe::Timetable timetable = timetable_of(run);
  std::vector<data::DataPhase> phases;
  for (const recipe::Stretch& stretch : timetable.stretches()) {
    const bool same =
        !phases.empty() && phases.back().context == stretch.context && phases.back().weights == stretch.weights;
    if (!same) phases.push_back({static_cast<uint64_t>(stretch.first_sample), stretch.context, stretch.weights});
  }
  return phases;
}

std::vector<recipe::ParameterRule> parameter_rules(const RunNode& run, const model::ModelDescription& description) {
  return recipe::parameter_rules(*run.parametrisation, run.model, description, *run.optimizer);
}

model::ModelDescription describe(const RunNode& run) {
  model::ModelDescription description = model::describe(run.model);
  recipe::set_deviations(description, parameter_rules(run, description));
  return description;
}

void check_trainable(const RunNode& run) {
  const schedule::Layout layout = layout_of(run);
  if (run.optimizer->kind() == recipe::Muon::kKind && (layout.tensor > 1 || layout.shards() > 1)) {
    throw InputError(
        "optimizer.kind is \"muon\", which needs whole matrices on every rank so far: parallel.tensor and "
        "parallel.fsdp "
        "must be 1, parallel.zero 0");
  }
  const recipe::Timetable timetable = timetable_of(run);
  for (size_t index = 0; index < run.phases.slots.size(); ++index) {
    const recipe::Stretch& stretch = timetable.stretches()[index];
    if (stretch.first_step >= run.train.steps) return;
    const std::string name = fmt::format("phases.{}", index);
    if (stretch.optimizer->kind() != run.optimizer->kind()) {
      throw InputError(
          fmt::format("{}.optimizer.kind is \"{}\", optimizer.kind is \"{}\": weft train changes no "
                      "optimizer within a run yet",
                      name, stretch.optimizer->kind(), run.optimizer->kind()));
    }
    for (const config::Difference& difference : config::differences(*run.optimizer, *stretch.optimizer)) {
      throw InputError(
          fmt::format("{}.optimizer.{} is {}, [optimizer] has {}: weft train changes no optimizer within "
                      "a run yet",
                      name, difference.path, difference.after, difference.before));
    }
    if (stretch.precision == "fp8") {
      throw InputError(fmt::format("{}.precision is \"fp8\", which weft train does not compute yet", name));
    }
    if (stretch.precision != run.train.precision) {
      throw InputError(
          fmt::format("{}.precision is \"{}\", train.precision is \"{}\": weft train does not change the "
                      "precision within a run yet",
                      name, stretch.precision, run.train.precision));
    }
  }
}

}  // namespace weft::run
