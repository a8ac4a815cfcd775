// zb-auto: the heuristic of Zero Bubble Pipeline Parallelism (arXiv 2401.10241, section 3.1) under a memory limit, a
// grid over its choices, and a local search from the best of the grid.
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "schedule/fill_weights.h"
#include "schedule/generators.h"

namespace weft::schedule {
namespace {

constexpr int64_t kMostActions = 30'000'000;  // to simulate: about half a second
constexpr double kGaps[] = {0, 0.25, 0.5, 0.75, 1};

double memory_of(const GenerateOptions& options) { return options.memory == 0 ? options.roles : options.memory; }

// A role begins `ahead` forwards, then a backward and a forward by turns: a forward only while less than `ahead` of its
// micro-batches have no backward.
RoleOrder order_of(int32_t stage, int32_t ahead, double gap, int32_t micro_batches) {
  RoleOrder order;
  order.gap = gap;
  order.computations.reserve(static_cast<size_t>(micro_batches) * 2);
  int32_t forwards = 0;
  for (int32_t inputs = 0; inputs < micro_batches; ++inputs) {
    for (; forwards < micro_batches && forwards - inputs < ahead; ++forwards) {
      order.computations.push_back({stage, forwards, true});
    }
    order.computations.push_back({stage, inputs, false});
  }
  return order;
}

class Search {
 public:
  Search(const GenerateOptions& options, const Schedule& schedule, const Durations& durations)
      : filler_(schedule.stages, options.micro_batches, durations, memory_of(options), options.weight_share),
        durations_(durations),
        roles_(static_cast<size_t>(options.roles)),
        micro_batches_(options.micro_batches),
        most_ahead_(std::min(options.micro_batches, static_cast<int32_t>(std::min(memory_of(options), 1e9)))),
        evaluations_left_(kMostActions / (3 * int64_t{options.roles} * options.micro_batches)) {}

  void fill(Schedule& schedule) {
    for (const double slope : {1.0, 1.25, 1.5, 1.75, 2.0}) {
      try_all_gaps([&](size_t role) { return 1 + slope * static_cast<double>(roles_ - 1 - role); });
    }
    for (const int more : {-1, 0, 1}) {
      try_all_gaps([&](size_t role) { return forwards_in_time(role) + more; });
    }
    while (evaluations_left_ > 0 && improve()) {
    }
    (void)filler_.fill(orders_, &schedule);
  }

 private:
  // How many forwards fit in front of the first backward without making it wait.
  [[nodiscard]] double forwards_in_time(size_t role) const {
    double slowest = 0, round_trip = 0;
    for (size_t stage = 0; stage <= role; ++stage) slowest = std::max(slowest, durations_.stages[stage].forward);
    for (size_t stage = role + 1; stage < roles_; ++stage) {
      round_trip += durations_.stages[stage].forward + durations_.stages[stage].input + 2 * durations_.message;
    }
    return 1 + std::floor(round_trip / slowest);
  }

  [[nodiscard]] RoleOrder order(size_t role, int32_t ahead, double gap) const {
    return order_of(static_cast<int32_t>(role), ahead, gap, micro_batches_);
  }

  template <typename Ahead>
  void try_all_gaps(const Ahead& ahead) {
    std::vector<int32_t> bounded(roles_);
    std::vector<RoleOrder> orders(roles_);
    for (size_t role = 0; role < roles_; ++role) {
      bounded[role] = std::max(1, static_cast<int32_t>(std::min<double>(ahead(role), most_ahead_)));
      orders[role] = order(role, bounded[role], 1);
    }
    for (const double gap : kGaps) {
      for (RoleOrder& role : orders) role.gap = gap;
      if (!is_better(orders)) continue;
      orders_ = orders;
      ahead_ = bounded;
    }
  }

  bool is_better(const std::vector<RoleOrder>& orders) {
    --evaluations_left_;
    const double span = filler_.fill(orders).span;
    if (!(span < span_ * (1 - 1e-12))) return false;
    span_ = span;
    return true;
  }

  // Every role in turn: more or fewer forwards ahead, another gap.
  bool improve() {
    bool improved = false;
    for (size_t role = 0; role < roles_ && evaluations_left_ > 0; ++role) {
      for (const int32_t more : {-1, 1, -2, 2}) {
        const int32_t ahead = ahead_[role] + more;
        if (ahead < 1 || ahead > most_ahead_) continue;
        RoleOrder before = std::exchange(orders_[role], order(role, ahead, orders_[role].gap));
        if (is_better(orders_)) {
          ahead_[role] = ahead;
          improved = true;
        } else {
          orders_[role] = std::move(before);
        }
      }
      for (const double gap : kGaps) {
        const double before = std::exchange(orders_[role].gap, gap);
        if (gap == before) continue;
        if (is_better(orders_)) {
          improved = true;
        } else {
          orders_[role].gap = before;
        }
      }
    }
    return improved;
  }

  WeightFiller filler_;
  const Durations& durations_;
  size_t roles_;
  int32_t micro_batches_, most_ahead_;
  int64_t evaluations_left_;
  double span_ = std::numeric_limits<double>::infinity();
  std::vector<int32_t> ahead_;     // of orders_
  std::vector<RoleOrder> orders_;  // the best found
};

}  // namespace

void fill_zero_bubble_auto(const GenerateOptions& options, Schedule& schedule) {
  const Durations times = durations_of(options, schedule.stages.size());
  for (RoleSchedule& role : schedule.roles) role.actions.reserve(static_cast<size_t>(options.micro_batches) * 3);
  Search(options, schedule, times).fill(schedule);
}

}  // namespace weft::schedule
