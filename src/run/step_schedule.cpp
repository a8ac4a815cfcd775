#include "run/step_schedule.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"
#include "run/layout.h"
#include "schedule/generate.h"
#include "schedule/passes.h"
#include "schedule/text_form.h"
#include "schedule/validate_stages.h"

namespace weft::run {
namespace {

using schedule::Schedule;

constexpr auto kPlace = schedule::MessagePlace::kSender;

bool is_file(const ScheduleNode& node) { return node.order.ends_with(".csv"); }

std::string kind_names() {
  std::string names;
  for (const schedule::Kind kind : schedule::all_kinds()) names += fmt::format("{}, ", name(kind));
  return names;
}

Schedule generated(const RunNode& run, int64_t micro_batches) {
  const auto kind = schedule::kind_of(run.schedule.order);
  if (!kind) {
    throw InputError(fmt::format("schedule.kind: there is no schedule \"{}\"; there are {}and files that end in .csv",
                                 run.schedule.order, kind_names()));
  }
  schedule::GenerateOptions options;
  options.roles = static_cast<int32_t>(run.parallel.pipeline);
  options.chunks = static_cast<int32_t>(run.schedule.chunks.value_or(0));
  options.micro_batches = static_cast<int32_t>(micro_batches);
  options.run = static_cast<int32_t>(run.schedule.run);
  options.rounds = static_cast<int32_t>(run.schedule.rounds);
  options.memory = run.schedule.memory;
  return generate(*kind, options);
}

// Computations and, where it has them, messages of a file.
Schedule from_file(const RunNode& run) {
  Schedule schedule = schedule::read_csv_file(run.schedule.order);
  if (std::cmp_not_equal(schedule.roles.size(), run.parallel.pipeline)) {
    throw InputError(fmt::format("{}: has {} roles, but parallel.pipeline is {}", run.schedule.order,
                                 schedule.roles.size(), run.parallel.pipeline));
  }
  return schedule;
}

// Stages whose parameters are all frozen.
void mark_frozen(Schedule& schedule, const RunNode& run, const model::ModelDescription& model) {
  for (schedule::Stage& stage : schedule.stages) {
    stage.trains = false;
    for (int32_t segment = stage.first_segment; segment < stage.first_segment + stage.segment_count; ++segment) {
      for (const int parameter : model.segments[static_cast<size_t>(segment)].parameters) {
        stage.trains |= !frozen(run.train, model.parameters[static_cast<size_t>(parameter)].path);
      }
    }
  }
}

bool has_messages(const Schedule& schedule) {
  return std::ranges::any_of(schedule.roles, [](const schedule::RoleSchedule& role) {
    return std::ranges::any_of(role.actions, [](const schedule::Action& a) { return a.op == schedule::Op::kSend; });
  });
}

// Shards of stages where there are several, and messages.
Schedule with_traffic(Schedule schedule, const RunNode& run) {
  if (run.schedule.recompute) schedule = recompute(schedule, std::vector<bool>(schedule.stages.size(), true));
  const schedule::Layout layout = layout_of(run);
  if (layout.zero >= 2 && layout.shards() > 1 && schedule.stages.size() > 1) {
    schedule = place_shards(schedule, layout.whole_stages, layout.zero == 3);
  }
  return place_messages(schedule, kPlace, {});
}

}  // namespace

std::vector<schedule::Stage> pipeline_stages(const RunNode& run, const model::ModelDescription& model) {
  // The stages are the same for any number of micro-batches that every round has one of.
  return assign_segments(is_file(run.schedule) ? from_file(run) : generated(run, run.schedule.rounds), model).stages;
}

Schedule step_schedule(const RunNode& run, const model::ModelDescription& model, int64_t micro_batches) {
  Schedule schedule = assign_segments(is_file(run.schedule) ? from_file(run) : generated(run, micro_batches), model);
  if (schedule.micro_batches != micro_batches) {
    throw InputError(fmt::format("{}: has {} micro-batches, but a step has {} (schedule.micro_batches)",
                                 run.schedule.order, schedule.micro_batches, micro_batches));
  }
  mark_frozen(schedule, run, model);
  if (!has_messages(schedule)) schedule = with_traffic(prune_frozen(schedule), run);
  const auto fault = schedule::validate_stages(schedule);
  if (!fault) return schedule;
  if (is_file(run.schedule)) throw InputError(fmt::format("{}: {}", run.schedule.order, fault->reason));
  throw Error(fmt::format("the schedule {} is not valid: {}", run.schedule.order, fault->reason));
}

Schedule evaluation_schedule(const Schedule& step, int64_t micro_batches) {
  Schedule forwards;
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
