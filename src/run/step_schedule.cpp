#include "run/step_schedule.h"

#include <fmt/format.h>

#include "base/error.h"
#include "schedule/generate.h"
#include "schedule/passes.h"

namespace weft::run {
namespace {

constexpr auto kPlace = schedule::MessagePlace::kSender;

std::string kind_names() {
  std::string names;
  for (const schedule::Kind kind : schedule::all_kinds())
    names += fmt::format("{}{}", names.empty() ? "" : ", ", name(kind));
  return names;
}

}  // namespace

schedule::Schedule step_schedule(const RunNode& run, const model::ModelDescription& model, int64_t micro_batches) {
  const auto kind = schedule::kind_of(run.schedule.order);
  if (!kind) {
    throw InputError(
        fmt::format("schedule.kind: there is no schedule \"{}\"; there are {}", run.schedule.order, kind_names()));
  }
  schedule::GenerateOptions options;
  options.roles = static_cast<int32_t>(run.parallel.pipeline);
  options.chunks = static_cast<int32_t>(run.schedule.chunks.value_or(0));
  options.micro_batches = static_cast<int32_t>(micro_batches);
  options.run = static_cast<int32_t>(run.schedule.run);
  options.rounds = static_cast<int32_t>(run.schedule.rounds);
  options.memory = run.schedule.memory;
  const schedule::Schedule computations = assign_segments(generate(*kind, options), model);
  return place_messages(computations, kPlace, options.times);
}

schedule::Schedule evaluation_schedule(const schedule::Schedule& step, int64_t micro_batches) {
  schedule::Schedule forwards;
  forwards.stages = step.stages;
  forwards.micro_batches = static_cast<int32_t>(micro_batches);
  forwards.roles.resize(step.roles.size());
  for (size_t stage = 0; stage < step.stages.size(); ++stage) {
    for (int32_t micro_batch = 0; micro_batch < forwards.micro_batches; ++micro_batch) {
      schedule::Action& forward = forwards.roles[static_cast<size_t>(step.stages[stage].role)].actions.emplace_back();
      forward.stage = static_cast<int32_t>(stage);
      forward.micro_batch = micro_batch;
    }
  }
  return place_messages(forwards, kPlace, {});
}

}  // namespace weft::run
