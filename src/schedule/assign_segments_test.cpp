#include <algorithm>
#include <functional>
#include <numeric>

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/philox.h"
#include "schedule/passes.h"

namespace weft::schedule {
namespace {

// One embedding segment, two segments a layer, two behind the last; a layer's FLOPs a token in its second segment.
model::ModelDescription layered(const std::vector<double>& layers, double head) {
  model::ModelDescription model;
  const auto add = [&](int layer, double flops) {
    model::SegmentDescription segment;
    segment.layer = layer;
    segment.formula.forward_flops_per_token = flops;
    segment.formula.backward_ratio = 2;
    model.segments.push_back(segment);
  };
  add(-1, 0);
  for (size_t layer = 0; layer < layers.size(); ++layer) {
    add(static_cast<int>(layer), 0);
    add(static_cast<int>(layer), layers[layer]);
  }
  add(-1, 0);
  add(-1, head);
  return model;
}

double largest_load(const Schedule& schedule, const model::ModelDescription& model) {
  std::vector<double> loads(schedule.roles.size());
  int32_t next = 0;
  for (const Stage& stage : schedule.stages) {
    EXPECT_EQ(stage.first_segment, next);
    EXPECT_GE(stage.segment_count, 2);
    next += stage.segment_count;
    for (int32_t index = stage.first_segment; index < next; ++index) {
      loads[static_cast<size_t>(stage.role)] +=
          model.segments[static_cast<size_t>(index)].formula.forward_flops_per_token;
    }
    if (stage.first_segment == 0) continue;
    const int before = model.segments[static_cast<size_t>(stage.first_segment - 1)].layer;
    EXPECT_EQ(model.segments[static_cast<size_t>(stage.first_segment)].layer, before + 1);
  }
  EXPECT_EQ(next, static_cast<int32_t>(model.segments.size()));
  return *std::ranges::max_element(loads);
}

// Of all ways to cut the layers.
double least_load(const std::vector<Stage>& stages, size_t roles, const std::vector<double>& layers, double head) {
  double least = std::accumulate(layers.begin(), layers.end(), head);
  std::vector<double> loads(roles);
  const std::function<void(size_t, size_t)> cut = [&](size_t stage, size_t next) {
    const size_t role = static_cast<size_t>(stages[stage].role);
    const size_t left = stages.size() - stage - 1;
    const double before = loads[role];
    for (size_t end = next + 1; end + left <= layers.size(); ++end) {
      loads[role] += layers[end - 1];
      if (left > 0) {
        cut(stage + 1, end);
      } else if (end == layers.size()) {
        loads[role] += head;
        least = std::min(least, *std::ranges::max_element(loads));
      }
    }
    loads[role] = before;
  };
  cut(0, 0);
  return least;
}

TEST(AssignSegments, NoOtherCutIsMoreEven) {
  uint64_t draw = 0;
  const auto number = [&](uint32_t below) { return random_word(RandomKey{7, 7}, draw++) % below; };
  for (int trial = 0; trial < 300; ++trial) {
    const bool one_stage = trial % 2 == 0;
    const int32_t roles = 1 + static_cast<int32_t>(number(4));
    const Kind kind = one_stage ? Kind::kGpipe : trial % 4 == 1 ? Kind::kBreadthFirst : Kind::kZeroBubbleV;
    GenerateOptions options;
    options.roles = roles;
    options.chunks = one_stage ? 1 : 2;
    const Schedule schedule = generate(kind, options);
    std::vector<double> layers(schedule.stages.size() + number(5), 3);
    if (one_stage) std::ranges::generate(layers, [&] { return 1.0 + number(9); });
    const double head = number(12);
    const model::ModelDescription model = layered(layers, head);
    EXPECT_DOUBLE_EQ(largest_load(assign_segments(schedule, model), model),
                     least_load(schedule.stages, schedule.roles.size(), layers, head))
        << "trial " << trial;
  }
}

TEST(AssignSegments, TooFewLayersAreRefused) {
  GenerateOptions options;
  options.roles = 4;
  EXPECT_THROW((void)assign_segments(generate(Kind::kGpipe, options), layered({1, 1, 1}, 1)), InputError);
}

}  // namespace
}  // namespace weft::schedule
