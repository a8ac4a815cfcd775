#include "simulate/simulate.h"

#include <numeric>
#include <random>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "schedule/generate.h"
#include "schedule/passes.h"
#include "schedule/text_form.h"
#include "schedule/timeline.h"

namespace weft::simulate {
namespace {

using schedule::Kind;
using schedule::Times;

schedule::GenerateOptions shape(int32_t roles, int32_t chunks, int32_t micro_batches) {
  schedule::GenerateOptions options;
  options.roles = roles;
  options.chunks = chunks;
  options.micro_batches = micro_batches;
  return options;
}

double idle_sum(const RoleSimulation& role) { return std::accumulate(role.idle.begin(), role.idle.end(), 0.0); }

// Zero Bubble Pipeline Parallelism (arXiv 2401.10241), table 6 in, table 5 out: milliseconds and shares of the step.
struct Published {
  int32_t roles, micro_batches;
  double forward, input, weight, message;
  double one_f_one_b, h1, h2;
};
constexpr Published kPublished[] = {
    {8, 24, 18.522, 18.086, 9.337, 0.601, 0.2431, 0.1585, 0.1083},
    {8, 64, 18.546, 18.097, 9.321, 0.762, 0.1240, 0.0674, 0.0444},
    {8, 32, 29.802, 29.428, 19.530, 0.577, 0.1898, 0.1045, 0.0559},
    {16, 48, 11.347, 11.248, 8.132, 0.377, 0.2552, 0.1397, 0.0672},
    {16, 128, 11.325, 11.308, 8.109, 0.378, 0.1251, 0.0576, 0.0266},
    {32, 128, 10.408, 10.204, 7.703, 0.408, 0.2168, 0.1106, 0.0490},
};

TEST(Simulate, ZeroBubblesPublishedRates) {
  for (const Published& row : kPublished) {
    const Times times = {row.forward, row.input, row.weight, row.message};
    const auto rate = [&](Kind kind) {
      const schedule::Schedule schedule = generate(kind, shape(row.roles, 1, row.micro_batches));
      return simulate(schedule, costs_of(schedule, times)).bubble_rate();
    };
    EXPECT_NEAR(rate(Kind::k1f1b), row.one_f_one_b, 5e-5);
    EXPECT_NEAR(rate(Kind::kZeroBubbleH1), row.h1, 5e-5);
    EXPECT_NEAR(rate(Kind::kZeroBubbleH2), row.h2, 5e-5);
  }
}

struct UnitRow {
  Kind kind;
  int32_t chunks;
  double span_bubble, makespan_bubble, peak;
};
// 8 roles, 16 micro-batches, all three times 1, everything held until the weight gradient; peaks in roles' layers.
constexpr UnitRow kUnitRows[] = {
    {Kind::k1f1b, 1, 21, 21, 8},        {Kind::kZeroBubbleH1, 1, 7, 7, 8}, {Kind::kZeroBubbleH2, 1, 0, 7, 15},
    {Kind::kZeroBubbleV, 2, 0, 3.5, 8}, {Kind::kDualPipeV, 2, 7, 7, 8.5},
};

TEST(Simulate, UnitTimes) {
  for (const UnitRow& row : kUnitRows) {
    SCOPED_TRACE(schedule::name(row.kind));
    const schedule::Schedule schedule = generate(row.kind, shape(8, row.chunks, 16));
    Costs costs = costs_of(schedule, {});
    costs.weight_share = 1;
    const Simulation result = simulate(schedule, costs);
    EXPECT_DOUBLE_EQ(result.work, 48);
    EXPECT_DOUBLE_EQ(result.span - 48, row.span_bubble);
    EXPECT_DOUBLE_EQ(result.makespan - 48, row.makespan_bubble);
    double peak = 0;
    for (const RoleSimulation& role : result.roles) peak = std::max(peak, role.peak);
    EXPECT_EQ(peak, row.peak);
  }
}

struct Synthetic {
  int32_t roles, chunks, micro_batches;
  double one_chunk, looped, peak_interleaved, peak_breadth_first;
};
// Forward 1, backward 2; peaks of role 0 in chunks.
constexpr Synthetic kSynthetic[] = {
    {2, 2, 4, 15, 13.5, 5, 8},     {4, 2, 8, 33, 28.5, 11, 16},      {4, 4, 8, 33, 26.25, 19, 32},
    {4, 4, 16, 57, 50.25, 19, 64}, {8, 4, 32, 117, 101.25, 39, 128}, {8, 8, 16, 69, 50.625, 71, 128},
};

TEST(Simulate, ClosedForms) {
  for (const Synthetic& row : kSynthetic) {
    const auto run = [&](Kind kind, int32_t chunks) {
      const schedule::Schedule schedule = generate(kind, shape(row.roles, chunks, row.micro_batches));
      return simulate(schedule, costs_of(schedule, {}));
    };
    EXPECT_DOUBLE_EQ(run(Kind::kGpipe, 1).makespan, row.one_chunk);
    EXPECT_DOUBLE_EQ(run(Kind::k1f1b, 1).makespan, row.one_chunk);
    const Simulation interleaved = run(Kind::kInterleaved, row.chunks);
    const Simulation breadth_first = run(Kind::kBreadthFirst, row.chunks);
    EXPECT_DOUBLE_EQ(interleaved.makespan, row.looped);
    EXPECT_DOUBLE_EQ(breadth_first.makespan, row.looped);
    EXPECT_DOUBLE_EQ(interleaved.roles[0].peak * row.chunks, row.peak_interleaved);
    EXPECT_DOUBLE_EQ(breadth_first.roles[0].peak * row.chunks, row.peak_breadth_first);
    EXPECT_DOUBLE_EQ(interleaved.makespan - interleaved.work, 3.0 * (row.roles - 1) / row.chunks);
    // A forward and a gradient cross every border of two stages once a micro-batch.
    int64_t messages = 0;
    for (const RoleSimulation& role : interleaved.roles) messages += role.messages;
    EXPECT_EQ(messages, 2 * row.micro_batches * (row.roles * row.chunks - 1));
  }
}

// The other clock of weft, which its passes use, knows computations alone.
TEST(Simulate, EqualsThePassesClockWithMessagesAndFreeGathersToo) {
  std::mt19937 random(5);
  std::uniform_real_distribution<double> some(0.2, 3);
  for (const Kind kind : {Kind::kGpipe, Kind::k1f1b, Kind::kInterleaved, Kind::kBreadthFirst, Kind::kZeroBubbleH1,
                          Kind::kZeroBubbleH2, Kind::kZeroBubbleV, Kind::kDualPipeV}) {
    for (const int32_t micro_batches : {1, 3, 8, 13}) {
      const int32_t chunks = kind == Kind::kInterleaved || kind == Kind::kBreadthFirst ? 3 : 0;
      const Times times = {some(random), some(random), some(random), some(random) / 8};
      const schedule::Schedule bare = generate(kind, shape(4, chunks, micro_batches));
      const size_t own = bare.stages.size() / 4;
      const auto expected = timeline(bare, schedule::durations(times, {}, bare.stages.size(), own));
      ASSERT_TRUE(expected.has_value());
      const schedule::Schedule sent = place_messages(bare, schedule::MessagePlace::kSender, times);
      const schedule::Schedule sharded = place_messages(place_shards(bare, 2), schedule::MessagePlace::kTime, times);
      for (const schedule::Schedule* schedule : {&bare, &sent, &sharded}) {
        const Simulation result = simulate(*schedule, costs_of(*schedule, times));
        EXPECT_NEAR(result.makespan, expected->makespan, 1e-9) << csv(*schedule);
        EXPECT_NEAR(result.span, expected->span, 1e-9) << csv(*schedule);
        for (const RoleSimulation& role : result.roles) {
          EXPECT_NEAR(role.busy + idle_sum(role), result.makespan, 1e-9);
          EXPECT_EQ(role.idle_of(Idle::kGather), 0);
          EXPECT_EQ(role.idle_of(Idle::kReduce), 0);
        }
        EXPECT_EQ(simulate(*schedule, costs_of(*schedule, times)).roles[1].messages,
                  simulate(bare, costs_of(bare, times)).roles[1].messages);
      }
    }
  }
}

schedule::Schedule read(std::string_view text) { return schedule::read_csv(text, "test"); }

// By hand: forward 1, input 2, weight 3, gather 4, reduce 5, a message 0.5.
Costs by_hand(size_t stages) {
  Costs costs;
  costs.stages.assign(stages, {.forward = 1, .input = 2, .weight = 3, .gather = 4, .reduce = 5, .activation = 1});
  costs.message = 0.5;
  return costs;
}

TEST(Simulate, ATinyStepByHand) {
  const schedule::Schedule schedule = read(
      "0UNSHARD,0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0I0,0RECV_B1,0I1,0W0,0W1,0RESHARD,0REDUCE_GRAD\n"
      "1UNSHARD,1RECV_F0,1F0,1RECV_F1,1F1,1I0,1SEND_B0,1I1,1SEND_B1,1W0,1W1,1RESHARD,1REDUCE_GRAD\n");
  const Simulation result = simulate(schedule, by_hand(2));
  const RoleSimulation& first = result.roles[0];
  const RoleSimulation& second = result.roles[1];
  // Role 0: gather 0-4, F0 4-5, F1 5-6, I0 at 9 + 0.5 and so on.
  EXPECT_EQ(first.intervals[1].begin, 4);
  EXPECT_EQ(second.intervals[2].begin, 5.5);
  EXPECT_EQ(second.intervals[4].begin, 6.5);
  EXPECT_EQ(second.intervals[5].end, 9.5);
  EXPECT_EQ(first.intervals[6].begin, 10);
  EXPECT_EQ(first.intervals[8].begin, 12);
  EXPECT_EQ(first.intervals[10].end, 20);
  EXPECT_EQ(second.intervals[10].end, 17.5);
  EXPECT_EQ(first.last, 25);
  EXPECT_EQ(result.makespan, 25);
  EXPECT_EQ(first.first, 0) << "the exposed gather is the role's own time";
  EXPECT_EQ(second.first, 5.5) << "here it hides behind the warm-up";
  EXPECT_EQ(result.span, 25);
  EXPECT_EQ(first.idle_of(Idle::kGather), 4);
  EXPECT_EQ(first.idle_of(Idle::kOther), 4);
  EXPECT_EQ(first.idle_of(Idle::kReduce), 5);
  EXPECT_EQ(second.idle_of(Idle::kGather), 4);
  EXPECT_EQ(second.idle_of(Idle::kWarmUp), 1.5);
  EXPECT_EQ(second.idle_of(Idle::kReduce), 5);
  EXPECT_EQ(second.idle_of(Idle::kCoolDown), 2.5);
  EXPECT_EQ(first.busy, 12);
  EXPECT_EQ(first.gathers, 1);
  EXPECT_EQ(first.reductions, 1);
  EXPECT_EQ(first.messages, 2);
  EXPECT_EQ(first.peak, 2);
}

TEST(Simulate, AGatherIntoAPlaceBeginsWhenThePlaceIsGivenAway) {
  const schedule::Schedule schedule = read("0UNSHARD,0F0,0F1,0RESHARD,1UNSHARD,1F0,1F1\n");
  const Simulation result = simulate(schedule, by_hand(2));
  EXPECT_EQ(result.roles[0].intervals[4].begin, 6);
  EXPECT_EQ(result.roles[0].intervals[5].begin, 10);
  EXPECT_EQ(result.roles[0].idle_of(Idle::kGather), 8);
  const schedule::Schedule two_places = read("0UNSHARD,1UNSHARD,0F0,0F1,0RESHARD,1F0,1F1\n");
  EXPECT_EQ(simulate(two_places, by_hand(2)).makespan, 10) << "the second gather follows the first, from 4 to 8";
}

TEST(Simulate, AMessageIsNotThereBeforeItsReceiveIsPosted) {
  // Role 1 posts the receive of micro-batch 0 behind its work on micro-batch 1, which begins at 2.5.
  const schedule::Schedule schedule = read(
      "0F0,0SEND_F0,0F1,0SEND_F1\n"
      "1RECV_F1,1F1,1RECV_F0,1F0\n");
  const Simulation result = simulate(schedule, by_hand(2));
  EXPECT_EQ(result.roles[1].intervals[1].begin, 2.5);
  EXPECT_EQ(result.roles[1].intervals[3].begin, 3.5) << "posted then, and sent long before";
  EXPECT_EQ(result.roles[1].intervals[2].end, 3.5);
}

TEST(Simulate, ASendBeginsWhereItStands) {
  const schedule::Schedule schedule = read(
      "0F0,0F1,0SEND_F0,0SEND_F1\n"
      "1RECV_F0,1RECV_F1,1F0,1F1\n");
  EXPECT_EQ(simulate(schedule, by_hand(2)).roles[1].intervals[2].begin, 2.5);
}

TEST(Simulate, AWaitHoldsUpTheList) {
  schedule::Schedule schedule = read("0F0,0B0,0REDUCE_GRAD,0F1,0B1,0REDUCE_GRAD\n");
  const Costs costs = by_hand(1);
  EXPECT_EQ(simulate(schedule, costs).makespan, 17) << "reductions 6 to 11 and 12 to 17";
  schedule::Action wait = schedule.roles[0].actions[2];
  wait.part = schedule::Part::kWait;
  schedule.roles[0].actions.insert(schedule.roles[0].actions.begin() + 3, wait);
  const Simulation held = simulate(schedule, costs);
  EXPECT_EQ(held.roles[0].intervals[4].begin, 11);
  EXPECT_EQ(held.makespan, 22);
  EXPECT_EQ(held.roles[0].reductions, 2);
}

TEST(Simulate, MemoryFallsInTwoSteps) {
  const schedule::Schedule schedule = read("0F0,0F1,0I0,0W0,0B1\n");
  const Costs costs = by_hand(1);
  const Simulation result = simulate(schedule, costs);
  EXPECT_EQ(result.roles[0].peak, 2);
  const std::vector<MemoryPoint> curve = memory_curve(schedule, costs, result, 0);
  const std::vector<std::pair<double, double>> expected = {{0, 1}, {1, 2}, {4, 1.4}, {7, 1}, {12, 0}};
  ASSERT_EQ(curve.size(), expected.size());
  for (size_t i = 0; i < curve.size(); ++i) {
    EXPECT_EQ(curve[i].time, expected[i].first);
    EXPECT_NEAR(curve[i].held, expected[i].second, 1e-9);
  }
  EXPECT_EQ(simulate(read("0F0,0F1\n"), costs).roles[0].peak, 1) << "an evaluation keeps nothing";
  EXPECT_EQ(simulate(recompute(read("0F0,0F1,0F2,0B0,0B1,0B2\n"), {true}), costs).roles[0].peak, 1);
}

TEST(Simulate, RefusesWhatItCannotRun) {
  const auto refusal = [](const schedule::Schedule& schedule, size_t stages) {
    try {
      (void)simulate(schedule, by_hand(stages));
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string("(accepted)");
  };
  EXPECT_NE(refusal(read("0F0,0B0,0F1,0B1\n1F1,1B1,1F0,1B0\n"), 2)
                .find("hangs: role 0 waits to begin backward(stage 0, micro-batch 0), action 1; role 1 waits to begin "
                      "forward(stage 1, micro-batch 1), action 0"),
            std::string::npos);
  EXPECT_NE(refusal(read("0RESHARD,0F0,0B0\n"), 1).find("role 0 waits to begin forward"), std::string::npos);
  EXPECT_NE(refusal(read("0F0,0B0\n"), 3).find("costs of 3 stages for a schedule of 1"), std::string::npos);
  schedule::Schedule lowered = read("0F0,0B0\n");
  lowered.roles[0].actions[0].segment = 0;
  EXPECT_NE(refusal(lowered, 1).find("no action of the stage level"), std::string::npos);
}

}  // namespace
}  // namespace weft::simulate
