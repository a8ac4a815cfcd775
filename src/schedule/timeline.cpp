#include "schedule/timeline.h"

#include <algorithm>
#include <numeric>

#include "schedule/computations.h"

namespace weft::schedule {
namespace {

class Clock {
 public:
  Clock(const Schedule& schedule, const Durations& durations)
      : schedule_(schedule),
        durations_(durations),
        grid_(schedule),
        next_(schedule.roles.size()),
        now_(schedule.roles.size()),
        waiting_(schedule.roles.size()) {
    forward_ends_.assign(grid_.size(), kNever);
    input_ends_.assign(grid_.size(), kNever);
    result_.begins.resize(schedule.roles.size());
    result_.ends.resize(schedule.roles.size());
  }

  std::optional<Timeline> run() {
    for (size_t role = schedule_.roles.size(); role-- > 0;) ready_.push_back(role);
    while (!ready_.empty()) {
      const size_t role = ready_.back();
      ready_.pop_back();
      advance(role);
    }
    for (size_t role = 0; role < schedule_.roles.size(); ++role) {
      if (next_[role] != schedule_.roles[role].actions.size()) return std::nullopt;
      const std::vector<double>& ends = result_.ends[role];
      if (ends.empty()) continue;
      result_.makespan = std::max(result_.makespan, ends.back());
      result_.span = std::max(result_.span, ends.back() - result_.begins[role].front());
    }
    return std::move(result_);
  }

 private:
  static constexpr double kNever = -1;

  // When the inputs of a computation are there, or kNever.
  [[nodiscard]] double inputs_there(const Action& action, size_t role) const {
    const size_t cell = grid_.cell(action);
    double there = 0;
    const auto wait_for = [&](const std::vector<double>& ends, size_t other, int32_t stage) {
      if (there == kNever) return;
      const double end = ends[other];
      const bool far = static_cast<size_t>(schedule_.stages[static_cast<size_t>(stage)].role) != role;
      there = end == kNever ? kNever : std::max(there, far ? end + durations_.message : end);
    };
    switch (action.op) {
      case Op::kForward:
        if (action.stage > 0) wait_for(forward_ends_, cell - grid_.micro_batches(), action.stage - 1);
        break;
      case Op::kBackward:
      case Op::kBackwardInput:
        wait_for(forward_ends_, cell, action.stage);
        if (grid_.reads_gradient(action.stage)) {
          wait_for(input_ends_, cell + grid_.micro_batches(), action.stage + 1);
        }
        break;
      case Op::kBackwardWeight:
        wait_for(input_ends_, cell, action.stage);
        break;
      default:
        wait_for(forward_ends_, cell, action.stage);
        break;
    }
    return there;
  }

  [[nodiscard]] double duration(const Action& action) const {
    const Durations::OfStage& stage = durations_.stages[static_cast<size_t>(action.stage)];
    switch (action.op) {
      case Op::kForward:
      case Op::kRecompute:
        return stage.forward;
      case Op::kBackward:
        return stage.input + stage.weight;
      case Op::kBackwardInput:
        return stage.input;
      default:
        return stage.weight;
    }
  }

  void finish(const Action& action, double end) {
    const size_t cell = grid_.cell(action);
    int32_t reader = -1;
    if (action.op == Op::kForward) {
      forward_ends_[cell] = end;
      reader = action.stage + 1;
    } else if (makes_gradient(action.op)) {
      input_ends_[cell] = end;
      reader = action.stage - 1;
    }
    if (reader < 0 || reader >= static_cast<int32_t>(schedule_.stages.size())) return;
    const size_t role = static_cast<size_t>(schedule_.stages[static_cast<size_t>(reader)].role);
    if (!waiting_[role]) return;
    waiting_[role] = false;
    ready_.push_back(role);
  }

  void advance(size_t role) {
    const std::vector<Action>& actions = schedule_.roles[role].actions;
    std::vector<double>& begins = result_.begins[role];
    std::vector<double>& ends = result_.ends[role];
    begins.reserve(actions.size());
    ends.reserve(actions.size());
    while (next_[role] < actions.size()) {
      const size_t first = next_[role];
      const size_t count = unit_length(actions, first);
      double begin = now_[role], length = 0;
      for (size_t index = first; index < first + count; ++index) {
        if (!is_computation(actions[index].op)) continue;
        const double there = inputs_there(actions[index], role);
        if (there == kNever) {
          waiting_[role] = true;
          return;
        }
        begin = std::max(begin, there);
        length += duration(actions[index]);
      }
      now_[role] = begin + length;
      next_[role] += count;
      for (size_t index = first; index < first + count; ++index) {
        begins.push_back(begin);
        ends.push_back(begin + length);
        if (is_computation(actions[index].op)) finish(actions[index], begin + length);
      }
    }
  }

  const Schedule& schedule_;
  const Durations& durations_;
  ComputationGrid grid_;
  std::vector<size_t> next_;   // by role: index in its list
  std::vector<double> now_;    // by role
  std::vector<char> waiting_;  // by role: stopped at next_
  std::vector<size_t> ready_;
  std::vector<double> forward_ends_, input_ends_;  // by cell
  Timeline result_;
};

}  // namespace

Durations durations(const Times& times, std::span<const double> stage_times, size_t stages, size_t chunks) {
  const double sum = std::accumulate(stage_times.begin(), stage_times.end(), 0.0);
  Durations result;
  result.message = times.message;
  result.stages.resize(stages);
  for (size_t stage = 0; stage < stages; ++stage) {
    const double relative = stage_times.empty() ? 1 : stage_times[stage] * static_cast<double>(stages) / sum;
    const double share = relative / static_cast<double>(chunks);
    result.stages[stage] = {times.forward * share, times.input * share, times.weight * share};
  }
  return result;
}

std::optional<Timeline> timeline(const Schedule& schedule, const Durations& durations) {
  return Clock(schedule, durations).run();
}

}  // namespace weft::schedule
