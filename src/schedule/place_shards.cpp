#include <algorithm>
#include <cstddef>

#include <fmt/format.h>

#include "base/error.h"
#include "schedule/computations.h"
#include "schedule/passes.h"

namespace weft::schedule {
namespace {

Action on_stage(Op op, int32_t stage) {
  Action action;
  action.op = op;
  action.stage = stage;
  action.stream = Stream::kData;
  return action;
}

// From `index` of a list on these stages hold a role's places: the next ones that differ, in the order of their use.
struct Window {
  size_t index = 0;
  std::vector<int32_t> stages;
};

// Windows in ascending index: they change where the list comes to another stage, and nowhere else.
std::vector<Window> windows(const std::vector<Action>& actions, int32_t places, bool (*uses)(Op)) {
  std::vector<Window> result;
  std::vector<int32_t> order;  // every stage that is used later, the next first
  for (size_t end = actions.size(); end > 0;) {
    const size_t first = end >= 2 && actions[end - 2].paired ? end - 2 : end - 1;
    const std::vector<int32_t> before = order;
    bool used = false;
    for (size_t index = end; index-- > first;) {
      if (!uses(actions[index].op)) continue;
      used = true;
      std::erase(order, actions[index].stage);
      order.insert(order.begin(), actions[index].stage);
    }
    end = first;
    if (!used) continue;
    if (result.empty() || order != before) result.emplace_back();
    result.back().index = first;
    const size_t kept = std::min(order.size(), static_cast<size_t>(places));
    result.back().stages.assign(order.begin(), order.begin() + static_cast<ptrdiff_t>(kept));
  }
  std::ranges::reverse(result);
  return result;
}

bool is_shard_traffic(Op op) { return op == Op::kUnshard || op == Op::kReshard || op == Op::kReduceGradient; }

bool contains(const std::vector<int32_t>& stages, int32_t stage) {
  return std::ranges::find(stages, stage) != stages.end();
}

class ShardPlacer {
 public:
  ShardPlacer(const Schedule& schedule, int32_t whole, bool gather)
      : whole_(whole), gather_(gather), dirty_(schedule.stages.size()), last_(schedule.stages.size()) {}

  std::vector<Action> place(const std::vector<Action>& actions) {
    // The index behind the last weight gradient of a stage.
    std::ranges::fill(last_, 0);
    for (size_t index = 0; index < actions.size(); ++index) {
      if (adds_weight_gradient(actions[index].op)) last_[static_cast<size_t>(actions[index].stage)] = index + 1;
    }
    const std::vector<Window> plan = windows(actions, whole_, gather_ ? is_computation : adds_weight_gradient);
    size_t next = 0;
    for (size_t first = 0; first < actions.size();) {
      const size_t end = first + unit_length(actions, first);
      if (next < plan.size() && plan[next].index == first) exchange(plan[next++], actions, first, end);
      for (size_t index = first; index < end; ++index) result_.push_back(actions[index]);
      for (; first < end; ++first) note(actions[first], first);
    }
    while (!held_.empty()) give_away(held_.front());
    return std::move(result_);
  }

 private:
  void exchange(const Window& window, const std::vector<Action>& actions, size_t first, size_t end) {
    for (size_t index = first; gather_ && index < end; ++index) {
      if (is_computation(actions[index].op) && !contains(window.stages, actions[index].stage)) {
        throw InputError(fmt::format("{} beside {} needs two whole stages, the bound is {}", text(actions[first]),
                                     text(actions[end - 1]), whole_));
      }
    }
    const std::vector<int32_t> held = held_;
    for (const int32_t stage : held) {
      if (!contains(window.stages, stage)) give_away(stage);
    }
    for (const int32_t stage : window.stages) {
      if (contains(held_, stage)) continue;
      held_.push_back(stage);
      if (gather_) result_.push_back(on_stage(Op::kUnshard, stage));
    }
  }

  void give_away(int32_t stage) {
    reduce(stage);
    if (gather_) result_.push_back(on_stage(Op::kReshard, stage));
    std::erase(held_, stage);
  }

  void reduce(int32_t stage) {
    if (!dirty_[static_cast<size_t>(stage)]) return;
    dirty_[static_cast<size_t>(stage)] = false;
    result_.push_back(on_stage(Op::kReduceGradient, stage));
  }

  void note(const Action& action, size_t index) {
    if (!adds_weight_gradient(action.op)) return;
    const size_t stage = static_cast<size_t>(action.stage);
    dirty_[stage] = true;
    if (last_[stage] == index + 1) reduce(action.stage);
  }

  int32_t whole_;
  bool gather_;
  std::vector<char> dirty_;   // by stage: gradients that were not reduced yet
  std::vector<size_t> last_;  // by stage
  std::vector<int32_t> held_;
  std::vector<Action> result_;
};

}  // namespace

Schedule place_shards(const Schedule& schedule, int32_t whole, bool gather_parameters) {
  if (whole < 1) throw InputError(fmt::format("at most {} whole stages, expected at least 1", whole));
  [[maybe_unused]] const ComputationGrid checked(schedule);
  Schedule placed = schedule;
  for (RoleSchedule& role : placed.roles) {
    for (const Action& action : role.actions) {
      if (is_shard_traffic(action.op)) throw InputError(fmt::format("{} stands in the list already", text(action)));
    }
    role.actions = ShardPlacer(schedule, whole, gather_parameters).place(role.actions);
  }
  return placed;
}

}  // namespace weft::schedule
