// Runs a stage-level schedule on paper: when each action begins and ends, what a role waits for, what it holds.
//
// The rules are those of schedule.h, with these durations:
//   - A role's list is begun in order. A computation begins when the one before it has ended, its inputs are there and
//     its stage is whole. Two paired actions are one that takes the sum of both.
//   - An action of another stream is begun when the list reaches it: when the computations before it have ended.
//   Unshards
//     and ReduceGradients of a role follow each other on its data stream; a computation waits for the last Unshard of
//     its stage in front of it, nothing waits for a ReduceGradient but the end of the step.
//   - A message is there Costs::message after its Send began, or where the list has none after its maker ended, and not
//     before its Receive was posted. Messages occupy nobody.
//   - A wait (Part::kWait) holds up the list: for its Send, or for what the data stream was given so far.
// With messages in the list or without, and with free gathers, these are the rules that the literature's numbers
// follow.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "schedule/schedule.h"
#include "simulate/costs.h"

namespace weft::simulate {

// Why a role computes nothing. Every moment of a step in which it does not is of exactly one class: kGather while the
// gather that its next computation needs is not over, kReduce from its last computation to the end of its last
// reduction, and otherwise by its place: before the first computation, between two, or after the last.
enum class Idle : uint8_t { kGather, kReduce, kWarmUp, kCoolDown, kOther, kTensor };
constexpr size_t kIdleClasses = 6;
[[nodiscard]] std::string_view name(Idle idle);  // "DP gather"

struct Interval {
  double begin = 0, end = 0;
};

struct RoleSimulation {
  std::vector<Interval> intervals;  // by index in the role's list
  std::array<double, kIdleClasses> idle{};
  double busy = 0;  // computing
  // The first computation, with what it waited for a gather alone; the end of the last computation or reduction.
  double first = 0, last = 0;
  double peak = 0;  // the most activations held, of one micro-batch through one role's layers
  int64_t gathers = 0, reductions = 0;
  int64_t messages = 0;  // that it sends

  [[nodiscard]] double idle_of(Idle which) const { return idle[static_cast<size_t>(which)]; }
};

struct Simulation {
  std::vector<RoleSimulation> roles;
  double makespan = 0;  // the last end of all
  double span = 0;      // the longest last - first of a role: a step where the next may begin role by role
  double work = 0;      // mean busy time of a role

  [[nodiscard]] double bubble_rate() const { return span > 0 ? (span - work) / span : 0; }
  [[nodiscard]] double bubble_rate_makespan() const { return makespan > 0 ? (makespan - work) / makespan : 0; }
};

// In time and memory proportional to the number of actions. InputError: actions that are not of the stage level, stages
// or micro-batches out of range or of another role, costs that are not of these stages; and a schedule that hangs, with
// the roles and what each waits for.
[[nodiscard]] Simulation simulate(const schedule::Schedule& schedule, const Costs& costs);

struct MemoryPoint {
  double time = 0;
  double held = 0;  // from then on
};
// What a role holds over time; ascending, one point a moment, from 0 to the last release.
[[nodiscard]] std::vector<MemoryPoint> memory_curve(const schedule::Schedule& schedule, const Costs& costs,
                                                    const Simulation& simulation, size_t role);

}  // namespace weft::simulate
