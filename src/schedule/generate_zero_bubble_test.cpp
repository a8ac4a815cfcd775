// The tables of Zero Bubble Pipeline Parallelism (arXiv 2401.10241, tables 5 and 6): measured times of a role's layers
// in, bubble rates to four decimals out.
#include <algorithm>
#include <functional>
#include <optional>
#include <tuple>
#include <utility>

#include <gtest/gtest.h>

#include "schedule/generate.h"
#include "schedule/timeline.h"

namespace weft::schedule {
namespace {

struct Row {
  int32_t roles, micro_batches, chunks;
  Times times;
  double one_forward_one_backward, interleaved, h1, h2, one_p, two_p;
};
constexpr Row kRows[] = {
    {8, 24, 3, {18.522, 18.086, 9.337, 0.601}, 0.2431, 0.1055, 0.1585, 0.1083, 0.1585, 0.0433},
    {8, 64, 3, {18.546, 18.097, 9.321, 0.762}, 0.1240, 0.0443, 0.0674, 0.0444, 0.0674, 0.0026},
    {8, 32, 4, {29.802, 29.428, 19.530, 0.577}, 0.1898, 0.0628, 0.1045, 0.0559, 0.1045, 0.0022},
    {16, 48, 3, {11.347, 11.248, 8.132, 0.377}, 0.2552, 0.1104, 0.1397, 0.0672, 0.1397, 0.0066},
    {16, 128, 3, {11.325, 11.308, 8.109, 0.378}, 0.1251, 0.0445, 0.0576, 0.0266, 0.0576, 0.0028},
    {32, 128, 2, {10.408, 10.204, 7.703, 0.408}, 0.2168, 0.1164, 0.1106, 0.0490, 0.1106, 0.0029},
};
constexpr double kFourDecimals = 0.5e-4 + 1e-9;

GenerateOptions options_of(const Row& row, int32_t chunks = 1) {
  GenerateOptions options;
  options.roles = row.roles;
  options.chunks = chunks;
  options.micro_batches = row.micro_batches;
  options.times = row.times;
  return options;
}

double bubble_rate(const Row& row, double cost) {
  const double useful = row.micro_batches * (row.times.forward + row.times.input + row.times.weight);
  return (cost - useful) / cost;
}

double bubble_rate(const Row& row, const Schedule& schedule, int32_t chunks = 1) {
  const std::optional<Timeline> when =
      timeline(schedule, durations(row.times, {}, schedule.stages.size(), static_cast<size_t>(chunks)));
  EXPECT_TRUE(when.has_value());
  return bubble_rate(row, when->span);
}

// In activations of one micro-batch through one role's layers; `share` of one is held from backward to weight gradient.
double peak_activations(const Schedule& schedule, double share) {
  const double one = static_cast<double>(schedule.roles.size()) / static_cast<double>(schedule.stages.size());
  double peak = 0;
  for (const RoleSchedule& role : schedule.roles) {
    double held = 0;
    for (const Action& action : role.actions) {
      if (action.op == Op::kForward) peak = std::max(peak, held += one);
      if (action.op == Op::kBackwardInput) held -= (1 - share) * one;
      if (action.op == Op::kBackwardWeight) held -= share * one;
    }
  }
  return peak;
}

TEST(ZeroBubble, PaperTableOfFixedLists) {
  for (const Row& row : kRows) {
    EXPECT_NEAR(bubble_rate(row, generate(Kind::k1f1b, options_of(row))), row.one_forward_one_backward, kFourDecimals);
    EXPECT_NEAR(bubble_rate(row, generate(Kind::kZeroBubbleH1, options_of(row))), row.h1, kFourDecimals);
    EXPECT_NEAR(bubble_rate(row, generate(Kind::kZeroBubbleH2, options_of(row))), row.h2, kFourDecimals);
  }
}

// The paper's column is the closed form; Megatron's order, run action by action, waits a little more for messages. With
// messages that take no time both are the same.
TEST(ZeroBubble, PaperTableOfInterleaved) {
  for (const Row& row : kRows) {
    const Times& times = row.times;
    const double useful = times.forward + times.input + times.weight;
    const double messages = (2.0 * row.roles * row.chunks - row.roles - 2) * times.message;
    const double bubble = (row.roles - 1) * useful / row.chunks + messages;
    const Schedule schedule = generate(Kind::kInterleaved, options_of(row, row.chunks));
    EXPECT_NEAR(bubble_rate(row, row.micro_batches * useful + bubble), row.interleaved, kFourDecimals);
    const double rate = bubble_rate(row, schedule, row.chunks);
    EXPECT_GE(rate, row.interleaved);
    EXPECT_LE(rate, row.interleaved * 1.05);
    Row at_once = row;
    at_once.times.message = 0;
    const double cost = row.micro_batches * useful + bubble - messages;
    EXPECT_NEAR(bubble_rate(at_once, schedule, row.chunks), bubble_rate(row, cost), 1e-12);
  }
}

TEST(ZeroBubble, AutoIsAsGoodAsThePaperWithinItsMemory) {
  for (const Row& row : kRows) {
    for (const auto& [memory, rate] : {std::pair(1.0, row.one_p), std::pair(2.0, row.two_p + 0.002)}) {
      GenerateOptions options = options_of(row);
      options.memory = memory * row.roles;
      const Schedule schedule = generate(Kind::kZeroBubbleAuto, options);
      EXPECT_LE(bubble_rate(row, schedule), rate + kFourDecimals) << row.roles << " " << row.micro_batches;
      EXPECT_LE(peak_activations(schedule, options.weight_share), options.memory + 1e-6);
    }
  }
}

TEST(ZeroBubble, AutoKeepsEveryLimit) {
  for (const double memory : {1.0, 1.5, 2.0, 3.7, 6.0, 9.0, 100.0}) {
    for (const double share : {0.0, 0.4, 1.0}) {
      GenerateOptions options = options_of(kRows[0]);
      options.memory = memory;
      options.weight_share = share;
      options.stage_times = {1, 1, 3, 1, 1, 0.5, 1, 2};
      const Schedule schedule = generate(Kind::kZeroBubbleAuto, options);
      EXPECT_LE(peak_activations(schedule, share), memory + 1e-6);
      EXPECT_TRUE(timeline(schedule, durations({}, {}, 8, 1)).has_value());
    }
  }
}

// All lists of a role within a memory limit.
std::vector<std::vector<Action>> all_lists(int32_t stage, int32_t micro_batches, double memory, double share) {
  std::vector<std::vector<Action>> result;
  std::vector<Action> list;
  const std::function<void(int32_t, int32_t, int32_t)> go_on = [&](int32_t forwards, int32_t inputs, int32_t weights) {
    const auto with = [&](Op op, int32_t micro_batch) {
      Action& action = list.emplace_back();
      action.op = op;
      action.stage = stage;
      action.micro_batch = micro_batch;
      go_on(forwards + (op == Op::kForward), inputs + (op == Op::kBackwardInput),
            weights + (op == Op::kBackwardWeight));
      list.pop_back();
    };
    if (weights == micro_batches) return result.push_back(list);
    const bool room = forwards - inputs + share * (inputs - weights) + 1 <= memory + 1e-9;
    if (forwards < micro_batches && room) with(Op::kForward, forwards);
    if (inputs < forwards) with(Op::kBackwardInput, inputs);
    if (weights < inputs) with(Op::kBackwardWeight, weights);
  };
  go_on(0, 0, 0);
  return result;
}

TEST(ZeroBubble, AutoIsTheBestOfAllListsOfTwoRoles) {
  for (const int32_t micro_batches : {2, 3}) {
    for (const double memory : {1.0, 1.5, 2.0, 3.0, 4.0}) {
      for (const Times& times : {Times{1, 1, 1, 0}, Times{1, 1.2, 0.6, 0.1}, Times{2, 1, 1.5, 0.3}}) {
        GenerateOptions options;
        options.roles = 2;
        options.micro_batches = micro_batches;
        options.memory = memory;
        options.times = times;
        Schedule schedule = generate(Kind::kZeroBubbleAuto, options);
        const Durations lengths = durations(times, {}, 2, 1);
        const double found = timeline(schedule, lengths)->span;
        double best = found;
        const auto second = all_lists(1, micro_batches, memory, options.weight_share);
        for (const auto& list : all_lists(0, micro_batches, memory, options.weight_share)) {
          schedule.roles[0].actions = list;
          for (const auto& other : second) {
            schedule.roles[1].actions = other;
            const std::optional<Timeline> when = timeline(schedule, lengths);
            if (when) best = std::min(best, when->span);
          }
        }
        EXPECT_NEAR(found, best, 1e-9) << micro_batches << " micro-batches in " << memory;
      }
    }
  }
}

// A slow stage in the middle: what is searched for these times beats the lists that know nothing of them.
TEST(ZeroBubble, AutoLooksAtTimesOfStages) {
  GenerateOptions options;
  options.roles = 6;
  options.micro_batches = 18;
  options.stage_times = {1, 1, 1.6, 1, 0.7, 0.7};
  options.memory = 11;
  const Durations times = durations(options.times, options.stage_times, 6, 1);
  const double searched = timeline(generate(Kind::kZeroBubbleAuto, options), times)->span;
  options.memory = 0;
  EXPECT_LT(searched, timeline(generate(Kind::kZeroBubbleH1, options), times)->span);
  EXPECT_LE(searched, timeline(generate(Kind::kZeroBubbleH2, options), times)->span + 1e-9);
}

// A half and a third of the P micro-batches of 1F1B and less than one more; 1/2 and 2/3 of its bubble, 3 (P - 1).
TEST(ZeroBubble, VHalfAndVMinHoldLess) {
  for (const int32_t roles : {2, 3, 4, 5, 6, 7, 8, 12, 16}) {
    GenerateOptions options;
    options.roles = roles;
    options.micro_batches = 4 * roles;
    for (const auto& [kind, memory, bubble] :
         {std::tuple(Kind::kVHalf, roles / 2.0, 1.5), std::tuple(Kind::kVMin, roles / 3.0, 2.0)}) {
      const Schedule schedule = generate(kind, options);
      const Timeline when = *timeline(schedule, durations({}, {}, schedule.stages.size(), 2));
      EXPECT_LE(peak_activations(schedule, options.weight_share), memory + 1) << name(kind) << " " << roles;
      EXPECT_LE(when.makespan - 3 * options.micro_batches, bubble * (roles - 1)) << name(kind) << " " << roles;
    }
  }
}

}  // namespace
}  // namespace weft::schedule
