#include <algorithm>
#include <cstdio>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "app/deciding_commands.h"
#include "app/schedule_text.h"
#include "base/file.h"
#include "base/json.h"
#include "config/tree.h"
#include "schedule/generate.h"
#include "schedule/passes.h"
#include "schedule/text_form.h"
#include "schedule/validate_stages.h"
#include "simulate/predicted_trace.h"
#include "simulate/simulate.h"
#include "simulate/timeline_page.h"

namespace weft::app {
namespace {

using schedule::Kind;

Kind kind_of(const std::string& given) {
  if (const std::optional<Kind> kind = schedule::kind_of(given)) return *kind;
  std::vector<std::string> names = {"check"};
  for (const Kind kind : schedule::all_kinds()) names.emplace_back(name(kind));
  const std::string nearest = config::suggestion(given, names);
  names.erase(names.begin());
  throw InputError(
      fmt::format("weft schedule: there is no kind \"{}\"{}; kinds are {}", given, nearest, fmt::join(names, ", ")));
}

schedule::GenerateOptions options_of(const Invocation& invocation) {
  const auto small = [&](std::string_view name) {
    return invocation.given(name) ? static_cast<int32_t>(invocation.integer(name)) : 0;
  };
  schedule::GenerateOptions options;
  options.roles = small("--ranks");
  options.chunks = small("--chunks");
  options.micro_batches = small("--micro-batches");
  options.run = small("--run");
  options.rounds = static_cast<int32_t>(invocation.integer("--rounds"));
  const std::vector<double> times = invocation.numbers("--times");
  if (times.size() != 4) {
    throw InputError(fmt::format("weft schedule: --times: {} numbers, expected 4: F,B,W,C", times.size()));
  }
  options.times = {times[0], times[1], times[2], times[3]};
  options.stage_times = invocation.numbers("--stage-times");
  if (invocation.given("--memory")) options.memory = invocation.number("--memory");
  options.weight_share = invocation.number("--weight-share");
  return options;
}

struct Answer {
  Kind kind = Kind::kGpipe;
  schedule::GenerateOptions options;
  schedule::Schedule schedule;
  std::optional<schedule::Fault> fault;
  simulate::Costs costs;
  simulate::Simulation simulation;
};

simulate::Costs costs_of(const schedule::Schedule& schedule, const schedule::GenerateOptions& options) {
  simulate::Costs costs = simulate::costs_of(schedule, options.times, options.stage_times);
  costs.weight_share = options.weight_share;
  return costs;
}

Answer decide(const Invocation& invocation) {
  Answer answer;
  answer.kind = kind_of(invocation.text("KIND"));
  answer.options = options_of(invocation);
  answer.schedule = generate(answer.kind, answer.options);
  schedule::Limits limits = {.weight_share = answer.options.weight_share};
  if (invocation.given("--fsdp")) {
    limits.whole_stages = static_cast<int32_t>(invocation.integer("--fsdp"));
    answer.schedule = place_shards(answer.schedule, limits.whole_stages);
  }
  answer.schedule = place_messages(answer.schedule, schedule::MessagePlace::kTime, answer.options.times);
  if (answer.kind == Kind::kZeroBubbleAuto) {
    limits.activations = answer.options.memory > 0 ? answer.options.memory : answer.options.roles;
  }
  answer.fault = validate_stages(answer.schedule, limits);
  answer.costs = costs_of(answer.schedule, answer.options);
  answer.simulation = simulate::simulate(answer.schedule, answer.costs);
  return answer;
}

int64_t count_actions(const schedule::Schedule& schedule) {
  int64_t count = 0;
  for (const schedule::RoleSchedule& role : schedule.roles) count += static_cast<int64_t>(role.actions.size());
  return count;
}

int64_t chunks_of(const Answer& answer) {
  return static_cast<int64_t>(answer.schedule.stages.size() / answer.schedule.roles.size());
}

OrderedJson json_of(const Answer& answer) {
  const simulate::Simulation& simulation = answer.simulation;
  const auto each_role = [&](auto of) {
    OrderedJson list = OrderedJson::array();
    for (const simulate::RoleSimulation& role : simulation.roles) list.push_back(of(role));
    return list;
  };
  OrderedJson idle = OrderedJson::object();
  for (size_t which = 0; which < simulate::kIdleClasses; ++which) {
    idle[std::string(name(static_cast<simulate::Idle>(which)))] =
        each_role([&](const simulate::RoleSimulation& role) { return role.idle[which]; });
  }
  return {{"kind", name(answer.kind)},
          {"ranks", answer.schedule.roles.size()},
          {"chunks", chunks_of(answer)},
          {"micro_batches", answer.schedule.micro_batches},
          {"valid", !answer.fault},
          {"reason", answer.fault ? OrderedJson(answer.fault->reason) : OrderedJson(nullptr)},
          {"makespan", simulation.makespan},
          {"span", simulation.span},
          {"bubble_rate", simulation.bubble_rate()},
          {"bubble_rate_makespan", simulation.bubble_rate_makespan()},
          {"peak_activations", each_role([](const auto& role) { return role.peak; })},
          {"gathers", each_role([](const auto& role) { return role.gathers; })},
          {"reductions", each_role([](const auto& role) { return role.reductions; })},
          {"messages", each_role([](const auto& role) { return role.messages; })},
          {"actions", count_actions(answer.schedule)},
          {"idle", idle}};
}

std::string title(const Answer& answer) {
  return fmt::format("{}: {} role{}, {} chunk{} a role, {} micro-batch{}", name(answer.kind),
                     answer.schedule.roles.size(), answer.schedule.roles.size() == 1 ? "" : "s", chunks_of(answer),
                     chunks_of(answer) == 1 ? "" : "s", answer.schedule.micro_batches,
                     answer.schedule.micro_batches == 1 ? "" : "es");
}

// The V schedules are made for three equal times; where these are not, plain 1f1b may be the better choice.
std::string advice(const Answer& answer) {
  if (chunks_of(answer) != 2 || answer.schedule.stages[0].role != answer.schedule.stages.back().role) return {};
  schedule::GenerateOptions options = answer.options;
  options.chunks = 1;
  options.stage_times.clear();
  const schedule::Schedule plain = generate(Kind::k1f1b, options);
  const simulate::Simulation other = simulate::simulate(plain, costs_of(plain, options));
  const bool span = other.span < answer.simulation.span, makespan = other.makespan < answer.simulation.makespan;
  if (!span && !makespan) return {};
  return fmt::format(
      "With these times {} is worse than 1f1b, whose bubble is {:.2f} % and {:.2f} %: it is made for "
      "equal times.\n",
      name(answer.kind), 100 * other.bubble_rate(), 100 * other.bubble_rate_makespan());
}

void print(const Answer& answer) {
  const schedule::Times& times = answer.options.times;
  std::string text = fmt::format(
      "{}; {} actions\na role's layers: forward {}, backward {} (input) + {} (weights); a "
      "message {}\n\n",
      title(answer), count_actions(answer.schedule), times.forward, times.input, times.weight, times.message);
  const std::string drawn = drawing(answer.schedule, answer.simulation, colour_wanted());
  text += drawn.empty() ? "too long to draw in 120 columns: --html FILE draws it\n" : drawn;
  text += "\n" + role_table(answer.simulation) + "\n" + bubble_text(answer.simulation) + advice(answer);
  if (answer.fault) text += fmt::format("not valid: {}\n", answer.fault->reason);
  std::fputs(text.c_str(), stdout);
}

void write_files(const Invocation& invocation, const Answer& answer) {
  if (invocation.given("--measured") && !invocation.given("--html")) {
    throw InputError("weft schedule: --measured is drawn on the page of --html, which is not given");
  }
  if (invocation.given("--csv")) write_file(invocation.text("--csv"), csv(answer.schedule));
  if (!invocation.given("--html") && !invocation.given("--trace")) return;
  std::vector<Trace> traces = {predicted_trace(answer.schedule, answer.costs, answer.simulation, title(answer))};
  if (invocation.given("--trace")) write_trace(invocation.text("--trace"), traces[0]);
  if (!invocation.given("--html")) return;
  const bool measured = invocation.given("--measured");
  if (measured) traces.push_back(read_trace(invocation.text("--measured")));
  const simulate::PageText text = simulate::page_text(answer.simulation, title(answer));
  write_file(invocation.text("--html"), simulate::timeline_page(traces, text));
}

}  // namespace

ExitCode run_schedule(const Invocation& invocation) {
  const Answer answer = decide(invocation);
  write_files(invocation, answer);
  invocation.json() ? static_cast<void>(fmt::print("{}\n", dump_json(json_of(answer)))) : print(answer);
  return answer.fault ? ExitCode::kFailed : ExitCode::kDone;
}

ExitCode run_schedule_check(const Invocation& invocation) {
  const std::string& file = invocation.text("FILE.csv");
  const schedule::Schedule schedule = schedule::read_csv_file(file);
  const std::optional<schedule::Fault> fault = validate_stages(schedule);
  const auto number = [](int64_t value) { return value < 0 ? OrderedJson(nullptr) : OrderedJson(value); };
  if (invocation.json()) {
    const OrderedJson answer = {{"valid", !fault},
                                {"reason", fault ? OrderedJson(fault->reason) : OrderedJson(nullptr)},
                                {"rank", number(fault ? fault->role : -1)},
                                {"action", number(fault ? fault->action : -1)}};
    fmt::print("{}\n", dump_json(answer));
  } else if (fault) {
    fmt::print("{}: not valid: {}\n", file, fault->reason);
  } else {
    fmt::print("{}: valid: {} roles, {} stages, {} micro-batches, {} actions\n", file, schedule.roles.size(),
               schedule.stages.size(), schedule.micro_batches, count_actions(schedule));
  }
  return fault ? ExitCode::kInput : ExitCode::kDone;
}

}  // namespace weft::app
