#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "base/check.h"
#include "base/error.h"
#include "schedule/passes.h"

namespace weft::schedule {
namespace {

// What can be cut: layers in order, and what stands in front of the first and behind the last.
struct Layers {
  std::vector<int32_t> first_segments;  // of each layer
  std::vector<double> costs;            // of each layer
  double before = 0, behind = 0;
};

Layers layers_of(const model::ModelDescription& model, int64_t length) {
  Layers layers;
  int last = -1;
  for (size_t index = 0; index < model.segments.size(); ++index) {
    const model::SegmentDescription& segment = model.segments[index];
    const model::Cost cost = segment.cost({1, length});
    const double flops = cost.forward_flops + cost.backward_flops;
    if (segment.layer > last) {
      last = segment.layer;
      layers.first_segments.push_back(static_cast<int32_t>(index));
      layers.costs.push_back(0);
    }
    double& part = layers.costs.empty() ? layers.before : segment.layer < 0 ? layers.behind : layers.costs.back();
    part += flops;
  }
  return layers;
}

// How many layers each stage holds, each at least one, by what its role then has to do.
class Balance {
 public:
  Balance(const Layers& layers, const std::vector<Stage>& stages, size_t roles)
      : layers_(layers), stages_(stages), roles_(roles), sums_(layers.costs.size() + 1), counts_(stages.size(), 1) {
    std::partial_sum(layers.costs.begin(), layers.costs.end(), sums_.begin() + 1);
  }

  std::vector<size_t> counts() {
    fill_evenly();
    while (improve()) {
    }
    return counts_;
  }

 private:
  // Smaller is better: the largest sum of a role, then how uneven they are.
  using Measure = std::pair<double, double>;

  // The smallest bound on a stage that all layers fit under, by bisection; exact where a role has one stage.
  void fill_evenly() {
    double low = 0, high = layers_.before + sums_.back() + layers_.behind;
    for (int step = 0; step < 60; ++step) {
      const double bound = (low + high) / 2;
      (fill(bound) ? high : low) = bound;
    }
    WEFT_CHECK(fill(high));
  }

  bool fill(double bound) {
    const size_t stages = stages_.size(), layers = layers_.costs.size();
    size_t next = 0;
    for (size_t stage = 0; stage < stages; ++stage) {
      const size_t first = next, left = stages - stage - 1;
      double sum = (stage == 0 ? layers_.before : 0) + (left == 0 ? layers_.behind : 0);
      do {
        sum += layers_.costs[next++];
      } while (next + left < layers && (left == 0 || sum + layers_.costs[next] <= bound));
      if (sum > bound) return false;
      counts_[stage] = next - first;
    }
    return true;
  }

  [[nodiscard]] Measure measure(const std::vector<size_t>& counts) const {
    std::vector<double> loads(roles_);
    size_t next = 0;
    for (size_t stage = 0; stage < counts.size(); ++stage) {
      double& load = loads[static_cast<size_t>(stages_[stage].role)];
      load += sums_[next + counts[stage]] - sums_[next];
      if (stage == 0) load += layers_.before;
      if (stage + 1 == counts.size()) load += layers_.behind;
      next += counts[stage];
    }
    return {*std::ranges::max_element(loads), std::inner_product(loads.begin(), loads.end(), loads.begin(), 0.0)};
  }

  // Gives one layer of a stage to another one, whichever makes most of it; the stages between them move by one.
  bool improve() {
    constexpr double kNoise = 1 - 1e-12;
    const Measure now = measure(counts_);
    Measure best = now;
    std::vector<size_t> counts = counts_, chosen;
    for (size_t from = 0; from < counts.size(); ++from) {
      if (counts[from] == 1) continue;
      for (size_t to = 0; to < counts.size(); ++to) {
        if (to == from) continue;
        --counts[from];
        ++counts[to];
        const Measure with = measure(counts);
        const bool better =
            with.first < best.first * kNoise || (with.first <= best.first && with.second < best.second * kNoise);
        if (better) {
          best = with;
          chosen = counts;
        }
        ++counts[from];
        --counts[to];
      }
    }
    if (chosen.empty()) return false;
    counts_ = std::move(chosen);
    return true;
  }

  const Layers& layers_;
  const std::vector<Stage>& stages_;
  size_t roles_;
  std::vector<double> sums_;  // of the costs of the layers before one
  std::vector<size_t> counts_;
};

}  // namespace

Schedule assign_segments(Schedule schedule, const model::ModelDescription& model, int64_t length) {
  const Layers layers = layers_of(model, length);
  const size_t stages = schedule.stages.size();
  WEFT_CHECK(stages > 0);
  if (stages > layers.costs.size()) {
    throw InputError(
        fmt::format("{} stages, but the model has {} layers; a stage holds at least one", stages, layers.costs.size()));
  }
  const std::vector<size_t> counts = Balance(layers, schedule.stages, schedule.roles.size()).counts();
  size_t layer = 0;
  for (size_t stage = 0; stage < stages; ++stage) {
    schedule.stages[stage].first_segment = stage == 0 ? 0 : layers.first_segments[layer];
    layer += counts[stage];
    const bool last = stage + 1 == stages;
    const int32_t end = last ? static_cast<int32_t>(model.segments.size()) : layers.first_segments[layer];
    schedule.stages[stage].segment_count = end - schedule.stages[stage].first_segment;
  }
  return schedule;
}

}  // namespace weft::schedule
