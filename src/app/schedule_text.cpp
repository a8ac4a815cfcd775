#include "app/schedule_text.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "schedule/computations.h"

namespace weft::app {
namespace {

using schedule::Action;
using schedule::Op;
using simulate::Idle;

constexpr size_t kColumns = 108;  // of a drawing, behind "role 15  "
constexpr size_t kMostDrawnRoles = 32;
constexpr size_t kMostRows = 24;

struct Look {
  char fill;
  std::string_view colour;
};

Look look(Op op) {
  switch (op) {
    case Op::kForward:
      return {'>', "\033[44;97m"};
    case Op::kBackward:
      return {'<', "\033[42;30m"};
    case Op::kBackwardInput:
      return {'<', "\033[46;30m"};
    case Op::kBackwardWeight:
      return {'~', "\033[43;30m"};
    default:
      return {'r', "\033[45;97m"};
  }
}

double shortest_computation(const schedule::Schedule& schedule, const simulate::Simulation& simulation) {
  double shortest = simulation.makespan;
  for (size_t role = 0; role < schedule.roles.size(); ++role) {
    for (size_t i = 0; i < schedule.roles[role].actions.size(); ++i) {
      const simulate::Interval interval = simulation.roles[role].intervals[i];
      if (!schedule::is_computation(schedule.roles[role].actions[i].op) || interval.end <= interval.begin) continue;
      shortest = std::min(shortest, interval.end - interval.begin);
    }
  }
  return shortest;
}

// Of a pair the first action gives the number and both give a half of the block.
std::string role_line(const schedule::RoleSchedule& role, const simulate::RoleSimulation& times,
                      double columns_per_unit, bool colour) {
  std::string line;
  size_t drawn = 0;
  const auto column = [&](double time) { return static_cast<size_t>(std::lround(time * columns_per_unit)); };
  for (size_t i = 0; i < role.actions.size(); ++i) {
    const Action& action = role.actions[i];
    if (!schedule::is_computation(action.op)) continue;
    simulate::Interval interval = times.intervals[i];
    const double middle = (interval.begin + interval.end) / 2;
    if (action.paired) interval.end = middle;
    if (i > 0 && role.actions[i - 1].paired) interval.begin = middle;
    const size_t begin = column(interval.begin), end = column(interval.end);
    if (end <= begin) continue;
    if (begin > drawn) line += std::string(begin - drawn, '.');
    std::string number = fmt::format("{}", action.micro_batch);
    if (number.size() > end - begin) number = number.substr(number.size() - (end - begin));
    const std::string block = number + std::string(end - begin - number.size(), look(action.op).fill);
    line += colour ? fmt::format("{}{}\033[0m", look(action.op).colour, block) : block;
    drawn = end;
  }
  return line;
}

// Three decimals at most, and none of a whole number.
std::string shown(double number) {
  std::string text = fmt::format("{:.3f}", number);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.ends_with('.')) text.pop_back();
  return text;
}

}  // namespace

std::string drawing(const schedule::Schedule& schedule, const simulate::Simulation& simulation, bool colour) {
  if (schedule.roles.size() > kMostDrawnRoles || !(simulation.makespan > 0)) return {};
  const double most = static_cast<double>(kColumns) / simulation.makespan;
  const double shortest = shortest_computation(schedule, simulation);
  if (shortest * most < 0.9) return {};
  // A whole number of columns for the shortest one makes equal actions equal.
  const double per_unit = shortest * most < 1 ? most : std::min(std::floor(shortest * most), 4.0) / shortest;
  std::string text;
  for (size_t role = 0; role < schedule.roles.size(); ++role) {
    text +=
        fmt::format("role {:<3} {}\n", role, role_line(schedule.roles[role], simulation.roles[role], per_unit, colour));
  }
  return text + "micro-batch, then > forward, < backward, ~ backward for the weights, . waiting\n";
}

std::string role_table(const simulate::Simulation& simulation) {
  constexpr std::string_view kRow = "{:>5} {:>11} {:>10} {:>10} {:>10} {:>10} {:>10} {:>8} {:>8} {:>8} {:>9}\n";
  const bool traffic = std::ranges::any_of(simulation.roles, [](const auto& role) { return role.gathers > 0; });
  std::string text = fmt::format(fmt::runtime(kRow), "role", "computing", "gather", "warm-up", "between", "cool-down",
                                 "reduce", "peak", "gathers", "reduces", "messages");
  const size_t roles = simulation.roles.size();
  for (size_t i = 0; i < roles; ++i) {
    if (roles > kMostRows && i == kMostRows / 2) {
      text += fmt::format("{:>5}\n", "...");
      i = roles - kMostRows / 2;
    }
    const simulate::RoleSimulation& role = simulation.roles[i];
    const auto count = [&](int64_t number) { return traffic ? fmt::format("{}", number) : std::string("-"); };
    text += fmt::format(fmt::runtime(kRow), i, shown(role.busy), shown(role.idle_of(Idle::kGather)),
                        shown(role.idle_of(Idle::kWarmUp)), shown(role.idle_of(Idle::kOther)),
                        shown(role.idle_of(Idle::kCoolDown)), shown(role.idle_of(Idle::kReduce)), shown(role.peak),
                        count(role.gathers), count(role.reductions), role.messages);
  }
  return text;
}

std::string bubble_text(const simulate::Simulation& simulation) {
  std::string text = fmt::format("bubble {:.2f} % of the step of {}, if all roles wait for the last one",
                                 100 * simulation.bubble_rate_makespan(), shown(simulation.makespan));
  if (simulation.span < simulation.makespan * (1 - 1e-9)) {
    text += fmt::format(";\n       {:.2f} % of {}, the longest time of a role, if the next step begins role by role",
                        100 * simulation.bubble_rate(), shown(simulation.span));
  } else {
    text += ";\n       no less if the next step begins role by role: one role takes the whole step";
  }
  return text + "\n";
}

}  // namespace weft::app
