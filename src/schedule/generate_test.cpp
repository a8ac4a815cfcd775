#include "schedule/generate.h"

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "schedule/text_form.h"
#include "schedule/timeline.h"

namespace weft::schedule {
namespace {

GenerateOptions shape(int32_t roles, int32_t chunks, int32_t micro_batches) {
  GenerateOptions options;
  options.roles = roles;
  options.chunks = chunks;
  options.micro_batches = micro_batches;
  return options;
}

Timeline unit_times(const Schedule& schedule, int32_t chunks, Times times = {}) {
  const std::optional<Timeline> result =
      timeline(schedule, durations(times, {}, schedule.stages.size(), static_cast<size_t>(chunks)));
  EXPECT_TRUE(result.has_value()) << csv(schedule);
  return result.value_or(Timeline{});
}

// The most micro-batches of a stage that a role holds from forward to the end of their weight gradient.
int64_t peak_stages(const Schedule& schedule, size_t role) {
  int64_t held = 0, peak = 0;
  for (const Action& action : schedule.roles[role].actions) {
    if (action.op == Op::kForward) peak = std::max(peak, ++held);
    if (action.op == Op::kBackward || action.op == Op::kBackwardWeight) --held;
  }
  return peak;
}

int64_t peak_stages(const Schedule& schedule) {
  int64_t peak = 0;
  for (size_t role = 0; role < schedule.roles.size(); ++role) peak = std::max(peak, peak_stages(schedule, role));
  return peak;
}

// Written from the papers' figures and tables, not by weft.
TEST(Generate, TinyListsAreTheKnownOnes) {
  EXPECT_EQ(csv(generate(Kind::kBreadthFirst, shape(2, 2, 4))),
            "0F0,0F1,0F2,0F3,2F0,2F1,2F2,2F3,2B0,2B1,2B2,2B3,0B0,0B1,0B2,0B3\n"
            "1F0,1F1,1F2,1F3,3F0,3F1,3F2,3F3,3B0,3B1,3B2,3B3,1B0,1B1,1B2,1B3\n");
  EXPECT_EQ(csv(generate(Kind::kInterleaved, shape(2, 2, 4))),
            "0F0,0F1,2F0,2F1,0F2,2B0,0F3,2B1,2F2,0B0,2F3,0B1,2B2,2B3,0B2,0B3\n"
            "1F0,1F1,3F0,3B0,3F1,3B1,1F2,1B0,1F3,1B1,3F2,3B2,3F3,3B3,1B2,1B3\n");
  EXPECT_EQ(csv(generate(Kind::kZeroBubbleV, shape(2, 2, 4))),
            "0F0,0F1,0F2,3F0,3I0,3W0,3F1,3I1,3W1,0F3,0I0,0W0,3F2,3I2,3W2,0I1,0W1,3F3,3I3,3W3,0I2,0W2,0I3,0W3\n"
            "1F0,2F0,1F1,2F1,2I0,2W0,1F2,1I0,1W0,2F2,2I1,2W1,1F3,1I1,1W1,2F3,2I2,2W2,1I2,2I3,1I3,1W2,2W3,1W3\n");
  EXPECT_EQ(csv(generate(Kind::kZeroBubbleH1, shape(4, 1, 4))),
            "0F0,0F1,0F2,0F3,0I0,0W0,0I1,0W1,0I2,0W2,0I3,0W3\n"
            "1F0,1F1,1F2,1I0,1F3,1I1,1W0,1I2,1W1,1I3,1W2,1W3\n"
            "2F0,2F1,2I0,2F2,2I1,2F3,2I2,2W0,2I3,2W1,2W2,2W3\n"
            "3F0,3I0,3F1,3I1,3F2,3I2,3F3,3I3,3W0,3W1,3W2,3W3\n");
}

struct Synthetic {
  int32_t roles, chunks, micro_batches;
  double one_chunk, looped;
  int64_t peak_interleaved, peak_breadth_first;
};
// Forward 1 and backward 2 of a role's layers.
constexpr Synthetic kSynthetic[] = {
    {2, 2, 4, 15, 13.5, 5, 8},     {4, 2, 8, 33, 28.5, 11, 16},      {4, 4, 8, 33, 26.25, 19, 32},
    {4, 4, 16, 57, 50.25, 19, 64}, {8, 4, 32, 117, 101.25, 39, 128}, {8, 8, 16, 69, 50.625, 71, 128},
};

TEST(Generate, StepsLastAsLongAsTheFormulasSay) {
  for (const auto& [roles, chunks, micro_batches, one_chunk, looped, peak_interleaved, peak_breadth] : kSynthetic) {
    for (const Kind kind : {Kind::kGpipe, Kind::k1f1b}) {
      EXPECT_DOUBLE_EQ(unit_times(generate(kind, shape(roles, 1, micro_batches)), 1).makespan, one_chunk);
    }
    const Schedule interleaved = generate(Kind::kInterleaved, shape(roles, chunks, micro_batches));
    EXPECT_DOUBLE_EQ(unit_times(interleaved, chunks).makespan, looped);
    EXPECT_EQ(peak_stages(interleaved, 0), peak_interleaved);
    const Schedule breadth_first = generate(Kind::kBreadthFirst, shape(roles, chunks, micro_batches));
    EXPECT_DOUBLE_EQ(unit_times(breadth_first, chunks).makespan, looped);
    EXPECT_EQ(peak_stages(breadth_first, 0), peak_breadth);
  }
}

struct UnitRow {
  Kind kind;
  int32_t chunks;
  double span_bubble, makespan_bubble;
  int64_t peak;
};
// 8 roles, 16 micro-batches, forward and both backward halves 1.
const UnitRow kUnitRows[] = {
    {Kind::k1f1b, 1, 21, 21, 8},         {Kind::kZeroBubbleH1, 1, 7, 7, 8}, {Kind::kZeroBubbleH2, 1, 0, 7, 15},
    {Kind::kZeroBubbleV, 2, 0, 3.5, 16}, {Kind::kDualPipeV, 2, 7, 7, 17},
};

TEST(Generate, UnitTimes) {
  for (const auto& [kind, chunks, span_bubble, makespan_bubble, peak] : kUnitRows) {
    const Schedule schedule = generate(kind, shape(8, chunks, 16));
    const Timeline when = unit_times(schedule, chunks);
    EXPECT_DOUBLE_EQ(when.span - 48, span_bubble) << name(kind);
    EXPECT_DOUBLE_EQ(when.makespan - 48, makespan_bubble) << name(kind);
    EXPECT_EQ(peak_stages(schedule), peak) << name(kind);
  }
}

// What must hold of any generated list: each forward once, its backward once, whole or in halves, in the right order,
// weight gradients ascending.
void check_lists(const Schedule& schedule, const std::string& what) {
  std::map<std::pair<int32_t, int32_t>, int> forwards, inputs, weights;
  for (size_t role = 0; role < schedule.roles.size(); ++role) {
    std::map<int32_t, int32_t> next_weight;
    for (const Action& action : schedule.roles[role].actions) {
      const std::pair key(action.stage, action.micro_batch);
      ASSERT_EQ(schedule.stages[static_cast<size_t>(action.stage)].role, static_cast<int32_t>(role)) << what;
      if (action.op == Op::kForward) ++forwards[key];
      if (action.op == Op::kBackward || action.op == Op::kBackwardInput) {
        ASSERT_EQ(forwards[key], 1) << what;
        ++inputs[key];
      }
      if (action.op == Op::kBackward || action.op == Op::kBackwardWeight) {
        ASSERT_EQ(inputs[key], 1) << what;
        ASSERT_EQ(action.micro_batch, next_weight[action.stage]++) << what;
        ++weights[key];
      }
    }
  }
  const size_t expected = schedule.stages.size() * static_cast<size_t>(schedule.micro_batches);
  for (const auto* counts : {&forwards, &inputs, &weights}) {
    ASSERT_EQ(counts->size(), expected) << what;
    for (const auto& [key, number] : *counts) ASSERT_EQ(number, 1) << what;
  }
}

// Every kind at every small shape, with every run that it has, and a few large shapes.
std::vector<std::pair<Kind, GenerateOptions>> every_shape() {
  std::vector<std::pair<Kind, GenerateOptions>> result;
  const auto add = [&](Kind kind, int32_t roles, int32_t micro_batches) {
    if (kind != Kind::kInterleaved && kind != Kind::kBreadthFirst) {
      result.emplace_back(kind, shape(roles, 0, micro_batches));
      return;
    }
    for (const int32_t chunks : {1, 2, 3}) {
      GenerateOptions options = shape(roles, chunks, micro_batches);
      result.emplace_back(kind, options);
      for (int32_t more = std::min(roles, micro_batches); more <= micro_batches + 1; ++more) {
        (kind == Kind::kInterleaved ? options.run : options.rounds) = std::min(more, micro_batches);
        result.emplace_back(kind, options);
      }
    }
  };
  for (const Kind kind : all_kinds()) {
    for (int32_t roles = 1; roles <= 6; ++roles) {
      for (int32_t micro_batches = 1; micro_batches <= 14; ++micro_batches) add(kind, roles, micro_batches);
    }
    add(kind, 16, 37);
    add(kind, 33, 50);
  }
  return result;
}

// Peer bugs: torchtitan 775 (fewer micro-batches than roles hangs), 774 (the stages of zbv lie on a V, not in a loop).
TEST(Generate, EveryShapeIsWholeAndEnds) {
  for (const auto& [kind, options] : every_shape()) {
    const std::string what =
        fmt::format("{} of {} roles, {} chunks, {} micro-batches, runs of {}, {} rounds", name(kind), options.roles,
                    options.chunks, options.micro_batches, options.run, options.rounds);
    const Schedule schedule = generate(kind, options);
    ASSERT_NO_FATAL_FAILURE(check_lists(schedule, what));
    const size_t chunks = schedule.stages.size() / schedule.roles.size();
    ASSERT_TRUE(timeline(schedule, durations({}, {}, schedule.stages.size(), chunks))) << what;
  }
}

TEST(Generate, OptionsThatAKindCannotTakeAreNamed) {
  const auto refused = [](Kind kind, GenerateOptions options) -> std::string {
    try {
      (void)generate(kind, options);
    } catch (const InputError& error) {
      return error.what();
    }
    return "";
  };
  GenerateOptions options = shape(4, 2, 8);
  EXPECT_EQ(refused(Kind::k1f1b, options), "schedule 1f1b: 2 chunks a role, expected 1");
  EXPECT_EQ(refused(Kind::kZeroBubbleV, shape(4, 3, 8)), "schedule zbv: 3 chunks a role, expected 2");
  EXPECT_EQ(refused(Kind::kBreadthFirst, shape(0, 2, 8)), "schedule bfs: 0 roles, expected at least 1");
  EXPECT_EQ(refused(Kind::kBreadthFirst, shape(4, 2, 0)),
            "schedule bfs: 0 micro-batches on 8 stages, expected 1 to 11184810");
  EXPECT_NE(refused(Kind::kGpipe, shape(2147483647, 1, 2147483647)), "");
  EXPECT_NE(refused(Kind::kInterleaved, shape(4, 2147483647, 8)), "");
  options.run = 3;
  EXPECT_EQ(refused(Kind::kInterleaved, options),
            "schedule interleaved: run = 3, expected 0 or at least 4: shorter ones hang");
  EXPECT_EQ(refused(Kind::kBreadthFirst, options), "schedule bfs: run = 3; interleaved alone has runs");
  options = shape(4, 2, 8);
  options.rounds = 9;
  EXPECT_EQ(refused(Kind::kBreadthFirst, options),
            "schedule bfs: 9 rounds, expected 1 to the number of micro-batches, 8");
  options = shape(4, 1, 8);
  options.memory = 0.5;
  EXPECT_EQ(refused(Kind::kZeroBubbleAuto, options),
            "schedule zb-auto: memory = 0.5, expected at least 1: the activations of one micro-batch");
  options.memory = 0;
  options.times.weight = -1;
  EXPECT_EQ(refused(Kind::kZeroBubbleAuto, options),
            "schedule zb-auto: the time of a backward for the weights is -1, expected a non-negative number");
  options = shape(4, 1, 8);
  options.frozen = {true};
  EXPECT_EQ(refused(Kind::kGpipe, options), "schedule gpipe: frozen of 1 stages, expected 4 or none");
}

// Depth-first rounds pay the bubble again: 28.5 in one, 33 in two (forward 1, backward 2 of a role's layers).
TEST(Generate, EveryRoundHasItsBubble) {
  GenerateOptions options = shape(4, 2, 8);
  options.rounds = 2;
  EXPECT_DOUBLE_EQ(unit_times(generate(Kind::kBreadthFirst, options), 2).makespan, 33);
}

// With unhidden messages of time c the step grows by 3.0 (bfs), 7.0 (interleaved) and 8.0 (1f1b) at c = 0.5.
TEST(Generate, MessagesHurtWhereNothingElseIsThereToDo) {
  Times times;
  times.message = 0.5;
  EXPECT_DOUBLE_EQ(unit_times(generate(Kind::kBreadthFirst, shape(4, 2, 8)), 2, times).makespan, 28.5 + 3);
  EXPECT_DOUBLE_EQ(unit_times(generate(Kind::kInterleaved, shape(4, 2, 8)), 2, times).makespan, 28.5 + 7);
  EXPECT_DOUBLE_EQ(unit_times(generate(Kind::k1f1b, shape(4, 1, 8)), 1, times).makespan, 33 + 8);
}

// Runs between one a role and all of them: one more than one a role already hides the messages, for few activations.
TEST(Generate, ALongerRunHidesMessages) {
  Times times;
  times.message = 0.1;
  for (const auto& [run, bubble, peak] : {std::tuple(4, 5.9, 11), std::tuple(5, 5.1, 12), std::tuple(20, 5.1, 27)}) {
    GenerateOptions options = shape(4, 2, 20);
    options.run = run;
    const Schedule schedule = generate(Kind::kInterleaved, options);
    EXPECT_NEAR(unit_times(schedule, 2, times).makespan - 60, bubble, 1e-9) << run;
    EXPECT_EQ(peak_stages(schedule, 0), peak) << run;
  }
}

TEST(Generate, FrozenStagesHaveWhatTheStagesBeforeThemNeed) {
  for (const Kind kind : all_kinds()) {
    for (uint32_t pattern = 0; pattern < 16; ++pattern) {
      GenerateOptions options = shape(stage_map(kind, 2, 0).size() == 4 ? 2 : 4, 0, 5);
      size_t first_trained = 4;
      for (uint32_t stage = 4; stage-- > 0;) {
        const bool frozen = (pattern >> stage & 1) != 0;
        options.frozen.insert(options.frozen.begin(), frozen);
        if (!frozen) first_trained = stage;
      }
      const Schedule schedule = generate(kind, options);
      std::array<int, 4> inputs{}, weights{};
      for (const RoleSchedule& role : schedule.roles) {
        for (const Action& action : role.actions) {
          const size_t stage = static_cast<size_t>(action.stage);
          if (action.op == Op::kBackward || action.op == Op::kBackwardInput) ++inputs[stage];
          if (action.op == Op::kBackward || action.op == Op::kBackwardWeight) ++weights[stage];
        }
      }
      for (size_t stage = 0; stage < 4; ++stage) {
        EXPECT_EQ(schedule.stages[stage].trains, !options.frozen[stage]);
        EXPECT_EQ(inputs[stage], stage < first_trained ? 0 : 5) << name(kind) << " " << pattern;
        EXPECT_EQ(weights[stage], options.frozen[stage] ? 0 : 5) << name(kind) << " " << pattern;
      }
      (void)unit_times(schedule, static_cast<int32_t>(4 / schedule.roles.size()));
    }
  }
}

}  // namespace
}  // namespace weft::schedule
