#include "simulate/simulate.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/check.h"
#include "base/error.h"
#include "schedule/computations.h"
#include "simulate/activations.h"

namespace weft::simulate {
namespace {

using schedule::Action;
using schedule::Direction;
using schedule::Op;
using schedule::Part;

constexpr double kNever = -1;

bool is_message(Op op) { return op == Op::kSend || op == Op::kReceive; }

// What ComputationGrid leaves to be checked: actions that compute nothing.
void check_others(const schedule::Schedule& schedule) {
  for (size_t role = 0; role < schedule.roles.size(); ++role) {
    for (const Action& action : schedule.roles[role].actions) {
      if (schedule::is_computation(action.op) && action.segment < 0) continue;
      const auto fail = [&](std::string_view what) {
        throw InputError(fmt::format("role {}: {} {}", role, schedule::text(action), what));
      };
      const bool message = is_message(action.op);
      const bool shard = action.op == Op::kUnshard || action.op == Op::kReshard || action.op == Op::kReduceGradient;
      if (action.segment >= 0 || (!message && !shard)) fail("is no action of the stage level");
      if (action.stage < 0 || static_cast<size_t>(action.stage) >= schedule.stages.size()) fail("has no such stage");
      if (static_cast<size_t>(schedule.stages[static_cast<size_t>(action.stage)].role) != role) {
        fail("is of another role's stage");
      }
      if (!message) continue;
      if (action.micro_batch < 0 || action.micro_batch >= schedule.micro_batches) fail("has no such micro-batch");
      const bool up = (action.op == Op::kSend) == (action.direction == Direction::kForward);
      const int64_t other = int64_t{action.stage} + (up ? 1 : -1);
      if (other < 0 || other >= static_cast<int64_t>(schedule.stages.size())) fail("has no other end");
    }
  }
}

class Simulator {
 public:
  Simulator(const schedule::Schedule& schedule, const Costs& costs)
      : schedule_(schedule), costs_(costs), grid_(schedule), activations_(schedule, costs) {
    check_others(schedule);
    if (costs.stages.size() != schedule.stages.size()) {
      throw InputError(
          fmt::format("costs of {} stages for a schedule of {}", costs.stages.size(), schedule.stages.size()));
    }
    for (const schedule::RoleSchedule& role : schedule.roles) {
      has_messages_ = has_messages_ || std::ranges::any_of(role.actions, is_message, &Action::op);
    }
    ends_.assign(2 * grid_.size(), kNever);
    if (has_messages_) {
      sent_.assign(2 * grid_.size(), kNever);
      posted_.assign(2 * grid_.size(), kNever);
    }
    whole_.assign(schedule.stages.size(), 0);
    states_.resize(schedule.roles.size());
    result_.roles.resize(schedule.roles.size());
  }

  Simulation run() {
    for (size_t role = schedule_.roles.size(); role-- > 0;) ready_.push_back(role);
    while (!ready_.empty()) {
      const size_t role = ready_.back();
      ready_.pop_back();
      advance(role);
    }
    check_finished();
    if (has_messages_) finish_receives();
    summarise();
    return std::move(result_);
  }

 private:
  struct State {
    size_t next = 0;      // in the role's list
    double reached = 0;   // when the list got there
    double computed = 0;  // end of the last computation
    double data = 0;      // end of the last action of the data stream
    double held = 0;      // activations
    bool any = false;     // whether anything was computed
    bool waiting = false;
  };

  // A value on its way forward or a gradient on its way back, by the stage that makes it.
  [[nodiscard]] size_t edge(int32_t maker, int32_t micro_batch, Direction direction) const {
    const size_t cell = static_cast<size_t>(maker) * grid_.micro_batches() + static_cast<size_t>(micro_batch);
    return 2 * cell + (direction == Direction::kForward ? 0 : 1);
  }
  [[nodiscard]] size_t edge(const Action& message) const {
    const int32_t back = message.direction == Direction::kForward ? -1 : 1;
    const int32_t maker = message.op == Op::kSend ? message.stage : message.stage + back;
    return edge(maker, message.micro_batch, message.direction);
  }
  [[nodiscard]] size_t role_of(int32_t stage) const {
    return static_cast<size_t>(schedule_.stages[static_cast<size_t>(stage)].role);
  }
  [[nodiscard]] const StageCosts& cost(const Action& action) const {
    return costs_.stages[static_cast<size_t>(action.stage)];
  }

  // When what `maker` makes is there for `reader`, or kNever as long as that is not known.
  [[nodiscard]] double arrival(int32_t maker, int32_t reader, int32_t micro_batch, Direction direction) const {
    const size_t at = edge(maker, micro_batch, direction);
    if (role_of(maker) == role_of(reader)) return ends_[at];
    if (!has_messages_) return ends_[at] == kNever ? kNever : ends_[at] + costs_.message;
    // A reader stands behind its Receive in the list, so that it begins after it was posted anyway.
    return sent_[at] == kNever || posted_[at] == kNever ? kNever : sent_[at] + costs_.message;
  }

  // When the inputs of a computation are there, or kNever.
  [[nodiscard]] double inputs_there(const Action& action) const {
    const int32_t stage = action.stage, micro_batch = action.micro_batch;
    if (action.op == Op::kForward) {
      return stage == 0 ? 0 : arrival(stage - 1, stage, micro_batch, Direction::kForward);
    }
    const bool weight = action.op == Op::kBackwardWeight;
    const double own = ends_[edge(stage, micro_batch, weight ? Direction::kBackward : Direction::kForward)];
    if (own == kNever || !schedule::makes_gradient(action.op) || !grid_.reads_gradient(stage)) return own;
    const double gradient = arrival(stage + 1, stage, micro_batch, Direction::kBackward);
    return gradient == kNever ? kNever : std::max(own, gradient);
  }

  [[nodiscard]] double duration(const Action& action) const {
    const StageCosts& stage = cost(action);
    switch (action.op) {
      case Op::kBackward:
        return stage.input + stage.weight;
      case Op::kBackwardInput:
        return stage.input;
      case Op::kBackwardWeight:
        return stage.weight;
      default:
        return stage.forward;
    }
  }

  void wake(size_t role) {
    if (!states_[role].waiting) return;
    states_[role].waiting = false;
    ready_.push_back(role);
  }

  void advance(size_t role) {
    const std::vector<Action>& actions = schedule_.roles[role].actions;
    State& state = states_[role];
    result_.roles[role].intervals.resize(actions.size());
    while (state.next < actions.size()) {
      const size_t count = schedule::unit_length(actions, state.next);
      const bool begun = schedule::is_computation(actions[state.next].op) ? compute(role, state.next, count)
                                                                          : begin_other(role, state.next);
      if (!begun) {
        state.waiting = true;
        return;
      }
      state.next += schedule::is_computation(actions[state.next].op) ? count : 1;
    }
  }

  bool compute(size_t role, size_t first, size_t count) {
    const Action* actions = schedule_.roles[role].actions.data() + first;
    State& state = states_[role];
    RoleSimulation& result = result_.roles[role];
    double there = 0, whole = 0, length = 0;
    for (size_t i = 0; i < count; ++i) {
      const double inputs = inputs_there(actions[i]), gathered = whole_[static_cast<size_t>(actions[i].stage)];
      if (inputs == kNever || gathered == kNever) return false;
      there = std::max(there, inputs);
      whole = std::max(whole, gathered);
      length += duration(actions[i]);
    }
    const Interval interval = {std::max({state.reached, there, whole}), 0};
    const double begin = interval.begin, end = begin + length;
    const double gathering = std::clamp(whole - state.computed, 0.0, begin - state.computed);
    result.idle[static_cast<size_t>(Idle::kGather)] += gathering;
    result.idle[static_cast<size_t>(state.any ? Idle::kOther : Idle::kWarmUp)] += begin - state.computed - gathering;
    if (!state.any) result.first = std::min(begin, std::max(state.reached, there));
    result.busy += length;
    state.any = true;
    state.computed = state.reached = end;
    for (size_t i = 0; i < count; ++i) state.held += activations_.taken(actions[i]);
    result.peak = std::max(result.peak, state.held);
    for (size_t i = 0; i < count; ++i) {
      state.held -= activations_.returned(actions[i]);
      result.intervals[first + i] = {begin, end};
      finish(actions[i], end);
    }
    return true;
  }

  void finish(const Action& action, double end) {
    const bool forward = action.op == Op::kForward;
    if (!forward && !schedule::makes_gradient(action.op)) return;
    ends_[edge(action.stage, action.micro_batch, forward ? Direction::kForward : Direction::kBackward)] = end;
    const int32_t reader = action.stage + (forward ? 1 : -1);
    if (has_messages_ || reader < 0 || static_cast<size_t>(reader) >= schedule_.stages.size()) return;
    wake(role_of(reader));
  }

  bool begin_other(size_t role, size_t index) {
    const Action& action = schedule_.roles[role].actions[index];
    State& state = states_[role];
    RoleSimulation& result = result_.roles[role];
    Interval& interval = result.intervals[index];
    switch (action.op) {
      case Op::kSend: {
        const size_t at = edge(action);
        if (action.part == Part::kWait) {
          if (sent_[at] == kNever) return false;
          interval = {state.reached, std::max(state.reached, sent_[at] + costs_.message)};
          state.reached = interval.end;
          return true;
        }
        if (ends_[at] == kNever) return false;
        sent_[at] = state.reached;
        interval = {state.reached, state.reached + costs_.message};
        ++result.messages;
        wake(role_of(action.stage + (action.direction == Direction::kForward ? 1 : -1)));
        return true;
      }
      case Op::kReceive:
        posted_[edge(action)] = state.reached;
        return true;
      case Op::kReshard:
        interval = {state.reached, state.reached};
        whole_[static_cast<size_t>(action.stage)] = kNever;
        return true;
      default: {
        if (action.part == Part::kWait) {
          interval = {state.reached, std::max(state.reached, state.data)};
          state.reached = interval.end;
          return true;
        }
        const bool gather = action.op == Op::kUnshard;
        interval.begin = std::max(state.reached, state.data);
        interval.end = state.data = interval.begin + (gather ? cost(action).gather : cost(action).reduce);
        if (gather) whole_[static_cast<size_t>(action.stage)] = interval.end;
        ++(gather ? result.gathers : result.reductions);
        if (!gather) result.last = interval.end;
        return true;
      }
    }
  }

  void check_finished() const {
    std::vector<std::string> stuck;
    size_t count = 0;
    for (size_t role = 0; role < states_.size(); ++role) {
      const std::vector<Action>& actions = schedule_.roles[role].actions;
      const size_t next = states_[role].next;
      if (next == actions.size()) continue;
      if (++count <= 4) {
        stuck.push_back(fmt::format("role {} waits to begin {}, action {}", role, schedule::text(actions[next]), next));
      }
    }
    if (count == 0) return;
    const std::string more = count > stuck.size() ? fmt::format(" and {} more", count - stuck.size()) : std::string();
    throw InputError(fmt::format("the schedule hangs: {}{}", fmt::join(stuck, "; "), more));
  }

  // The transfer that a Receive belongs to: it may have been posted long before.
  void finish_receives() {
    for (size_t role = 0; role < schedule_.roles.size(); ++role) {
      const std::vector<Action>& actions = schedule_.roles[role].actions;
      for (size_t index = 0; index < actions.size(); ++index) {
        if (actions[index].op != Op::kReceive) continue;
        const size_t at = edge(actions[index]);
        if (sent_[at] == kNever) {
          throw InputError(fmt::format("the schedule hangs: role {} waits for {}, action {}, that nobody sends", role,
                                       schedule::text(actions[index]), index));
        }
        result_.roles[role].intervals[index] = {std::max(posted_[at], sent_[at]),
                                                std::max(posted_[at], sent_[at] + costs_.message)};
      }
    }
  }

  void count_messages_without() {
    for (size_t role = 0; role < schedule_.roles.size(); ++role) {
      for (const Action& action : schedule_.roles[role].actions) {
        const bool forward = action.op == Op::kForward;
        if (!forward && !schedule::makes_gradient(action.op)) continue;
        const int32_t reader = action.stage + (forward ? 1 : -1);
        if (reader < 0 || static_cast<size_t>(reader) >= schedule_.stages.size()) continue;
        if (role_of(reader) != role && (forward || grid_.has_backward(reader))) ++result_.roles[role].messages;
      }
    }
  }

  void summarise() {
    if (!has_messages_) count_messages_without();
    double busy = 0;
    for (size_t role = 0; role < states_.size(); ++role) {
      RoleSimulation& result = result_.roles[role];
      result.last = std::max(result.last, states_[role].computed);
      result.peak = std::round(result.peak * 1e9) / 1e9;
      result_.makespan = std::max(result_.makespan, result.last);
      result_.span = std::max(result_.span, result.last - result.first);
      busy += result.busy;
    }
    if (!states_.empty()) result_.work = busy / static_cast<double>(states_.size());
    for (size_t role = 0; role < states_.size(); ++role) {
      RoleSimulation& result = result_.roles[role];
      result.idle[static_cast<size_t>(Idle::kReduce)] = result.last - states_[role].computed;
      result.idle[static_cast<size_t>(Idle::kCoolDown)] = result_.makespan - result.last;
    }
  }

  const schedule::Schedule& schedule_;
  const Costs& costs_;
  schedule::ComputationGrid grid_;
  Activations activations_;
  bool has_messages_ = false;
  std::vector<double> ends_, sent_, posted_;  // by edge
  std::vector<double> whole_;                 // by stage: when its parameters are whole
  std::vector<State> states_;                 // by role
  std::vector<size_t> ready_;                 // roles that may get further
  Simulation result_;
};

}  // namespace

std::string_view name(Idle idle) {
  constexpr std::array<std::string_view, kIdleClasses> kNames = {"DP gather",    "DP reduce", "PP warm-up",
                                                                 "PP cool-down", "PP other",  "TP"};
  return kNames[static_cast<size_t>(idle)];
}

Costs costs_of(const schedule::Schedule& schedule, const schedule::Times& times, std::span<const double> stage_times) {
  const size_t stages = schedule.stages.size();
  WEFT_CHECK(stage_times.empty() || stage_times.size() == stages);
  const double sum = std::accumulate(stage_times.begin(), stage_times.end(), 0.0);
  const double equal = static_cast<double>(schedule.roles.size()) / static_cast<double>(stages);
  Costs costs;
  costs.message = times.message;
  for (size_t stage = 0; stage < stages; ++stage) {
    const double share = stage_times.empty() ? equal : equal * stage_times[stage] * static_cast<double>(stages) / sum;
    costs.stages.push_back({.forward = times.forward * share,
                            .input = times.input * share,
                            .weight = times.weight * share,
                            .activation = share});
  }
  return costs;
}

Simulation simulate(const schedule::Schedule& schedule, const Costs& costs) { return Simulator(schedule, costs).run(); }

std::vector<MemoryPoint> memory_curve(const schedule::Schedule& schedule, const Costs& costs,
                                      const Simulation& simulation, size_t role) {
  const Activations activations(schedule, costs);
  const std::vector<Action>& actions = schedule.roles[role].actions;
  std::vector<MemoryPoint> curve = {{0, 0}};
  double held = 0;
  const auto change = [&](double time, double amount) {
    if (amount == 0) return;
    held += amount;
    if (curve.back().time != time) curve.push_back({time, 0});
    curve.back().held = std::round(held * 1e9) / 1e9;
  };
  for (size_t first = 0; first < actions.size();) {
    const size_t end =
        first + (schedule::is_computation(actions[first].op) ? schedule::unit_length(actions, first) : 1);
    const Interval interval = simulation.roles[role].intervals[first];
    const bool computes = schedule::is_computation(actions[first].op);
    for (size_t i = first; computes && i < end; ++i) change(interval.begin, activations.taken(actions[i]));
    for (size_t i = first; computes && i < end; ++i) change(interval.end, -activations.returned(actions[i]));
    first = end;
  }
  return curve;
}

}  // namespace weft::simulate
