#include "schedule/schedule.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include <gtest/gtest.h>

#include "schedule/passes.h"

namespace weft::schedule {
namespace {

// embed -> x; norm(x) -> n; mlp(n) -> b; residual(x, b) -> y; logits(y) -> l; loss(l) -> s
model::ModelDescription small_model() {
  using model::SegmentKind;
  model::ModelDescription model;
  model.values.resize(6);
  const auto add = [&](SegmentKind kind, std::vector<int> inputs, int output) {
    model::SegmentDescription segment;
    segment.kind = kind;
    segment.inputs = std::move(inputs);
    segment.outputs = {output};
    model.segments.push_back(segment);
  };
  add(SegmentKind::kEmbed, {}, 0);
  add(SegmentKind::kNorm, {0}, 1);
  add(SegmentKind::kMlp, {1}, 2);
  add(SegmentKind::kResidual, {0, 2}, 3);
  add(SegmentKind::kLogits, {3}, 4);
  add(SegmentKind::kLoss, {4}, 5);
  return model;
}

std::vector<std::string> texts(const Schedule& schedule) {
  std::vector<std::string> result;
  for (const Action& action : schedule.roles[0].actions) result.push_back(text(action));
  return result;
}

TEST(Schedule, AccumulateRunsMicroBatchesInOrder) {
  const Schedule schedule = accumulate(small_model(), 2);
  EXPECT_EQ(texts(schedule),
            (std::vector<std::string>{"forward(stage 0, micro-batch 0)", "backward(stage 0, micro-batch 0)",
                                      "forward(stage 0, micro-batch 1)", "backward(stage 0, micro-batch 1)"}));
}

TEST(Schedule, ExpandRunsSegmentsAndFreesValues) {
  const Schedule schedule = expand(evaluate(small_model(), 1), small_model());
  EXPECT_EQ(texts(schedule),
            (std::vector<std::string>{
                "forward(stage 0, segment 0, micro-batch 0)", "forward(stage 0, segment 1, micro-batch 0)",
                "forward(stage 0, segment 2, micro-batch 0)", "free(stage 0, micro-batch 0, value 1)",
                "forward(stage 0, segment 3, micro-batch 0)", "free(stage 0, micro-batch 0, value 0)",
                "free(stage 0, micro-batch 0, value 2)", "forward(stage 0, segment 4, micro-batch 0)",
                "free(stage 0, micro-batch 0, value 3)", "forward(stage 0, segment 5, micro-batch 0)",
                "free(stage 0, micro-batch 0, value 4)", "free(stage 0, micro-batch 0, value 5)", "reduce(loss)"}));
}

TEST(Schedule, BackwardRunsSegmentsInReverse) {
  const Schedule schedule = expand(accumulate(small_model(), 1), small_model());
  std::vector<int32_t> segments;
  for (const Action& action : schedule.roles[0].actions) {
    if (action.op == Op::kBackward) segments.push_back(action.segment);
  }
  EXPECT_EQ(segments, (std::vector<int32_t>{5, 4, 3, 2, 1, 0}));
}

std::vector<Schedule> valid_schedules() {
  const model::ModelDescription model = small_model();
  std::vector<Schedule> schedules;
  for (const int32_t micro_batches : {1, 3}) {
    Schedule plain = accumulate(model, micro_batches);
    Schedule two_stages = plain;  // F0 F1 B1 B0, cut in the middle of the residual
    two_stages.stages = {{0, 2, 0}, {2, 4, 0}};
    two_stages.roles[0].actions.clear();
    for (const Action& action : plain.roles[0].actions) {
      two_stages.roles[0].actions.push_back(action);
      Action& first = two_stages.roles[0].actions.back();
      Action second = first;
      (action.op == Op::kForward ? second : first).stage = 1;
      two_stages.roles[0].actions.push_back(second);
    }
    for (const Schedule& schedule :
         {plain, evaluate(model, micro_batches), split_backward(plain), two_stages, split_backward(two_stages)}) {
      schedules.push_back(expand(schedule, model));
    }
  }
  return schedules;
}

TEST(Validate, GeneratedSchedulesAreValid) {
  for (const Schedule& schedule : valid_schedules()) EXPECT_EQ(validate(schedule, small_model()), "");
}

// An independent judge: runs the lowered list on sets of who contributed what, and answers what the step used. Nothing
// if the list reads what is not there.
struct Outcome {
  std::vector<std::vector<std::pair<int, std::string>>> weights;  // a segment: (micro-batch, gradient) in order
  std::set<int> losses;
  bool normed = false;
  friend bool operator==(const Outcome&, const Outcome&) = default;
};

std::optional<Outcome> run_abstractly(const Schedule& schedule, const model::ModelDescription& model) {
  std::map<std::pair<int, int>, std::string> values, gradients, kept, queued;
  Outcome now, at_step;
  now.weights.resize(model.segments.size());
  bool stepped = false;
  for (const Action& action : schedule.roles[0].actions) {
    if (stepped) return std::nullopt;
    const int mb = action.micro_batch;
    if (action.op == Op::kForward) {
      const model::SegmentDescription& segment = model.segments[static_cast<size_t>(action.segment)];
      std::string result = std::to_string(action.segment) + "(";
      for (const int input : segment.inputs) {
        if (!values.contains({input, mb})) return std::nullopt;
        result += values[{input, mb}] + ",";
      }
      if (!kept.emplace(std::pair(action.segment, mb), result).second) return std::nullopt;
      values[{segment.outputs[0], mb}] = result + ")";
      if (segment.kind == model::SegmentKind::kLoss) gradients[{segment.outputs[0], mb}] = "1";
    } else if (action.op == Op::kBackward || action.op == Op::kBackwardInput) {
      const model::SegmentDescription& segment = model.segments[static_cast<size_t>(action.segment)];
      const auto gradient = gradients.find({segment.outputs[0], mb});
      const auto saved = kept.find({action.segment, mb});
      if (gradient == gradients.end() || saved == kept.end()) return std::nullopt;
      const std::string result = "d" + saved->second + "|" + gradient->second + ")";
      gradients.erase(gradient);
      saved->second = "used";
      for (const int input : segment.inputs) gradients[{input, mb}] += "+" + result;
      if (action.op == Op::kBackward) {
        now.weights[static_cast<size_t>(action.segment)].emplace_back(mb, result);
      } else {
        queued[{action.segment, mb}] = result;
      }
    } else if (action.op == Op::kBackwardWeight) {
      const auto gradient = queued.find({action.segment, mb});
      if (gradient == queued.end()) return std::nullopt;
      now.weights[static_cast<size_t>(action.segment)].emplace_back(mb, gradient->second);
      queued.erase(gradient);
    } else if (action.op == Op::kFree) {
      if (values.erase({action.value, mb}) == 0) return std::nullopt;
    } else if (action.op == Op::kReduce && action.purpose == Purpose::kLoss) {
      for (const auto& [key, value] : kept) {
        if (key.first == static_cast<int>(model.segments.size()) - 1) now.losses.insert(key.second);
      }
    } else if (action.op == Op::kReduce) {
      now.normed = true;
      at_step = now;
    } else {
      if (!now.normed || at_step.weights != now.weights) return std::nullopt;
      stepped = true;
    }
  }
  if (!values.empty() || (now.normed && !stepped)) return std::nullopt;
  return now;
}

std::optional<Outcome> judge(const Schedule& schedule) { return run_abstractly(schedule, small_model()); }

TEST(Validate, DroppedActionsAreFound) {
  for (const Schedule& schedule : valid_schedules()) {
    for (size_t index = 0; index < schedule.roles[0].actions.size(); ++index) {
      Schedule mutated = schedule;
      mutated.roles[0].actions.erase(mutated.roles[0].actions.begin() + static_cast<ptrdiff_t>(index));
      EXPECT_NE(validate(mutated, small_model()), "") << text(schedule.roles[0].actions[index]);
    }
  }
}

TEST(Validate, RepeatedActionsAreFound) {
  for (const Schedule& schedule : valid_schedules()) {
    for (size_t index = 0; index < schedule.roles[0].actions.size(); ++index) {
      for (const size_t place : {index, schedule.roles[0].actions.size()}) {
        Schedule mutated = schedule;
        std::vector<Action>& actions = mutated.roles[0].actions;
        actions.insert(actions.begin() + static_cast<ptrdiff_t>(place), schedule.roles[0].actions[index]);
        EXPECT_NE(validate(mutated, small_model()), "") << text(schedule.roles[0].actions[index]);
      }
    }
  }
}

TEST(Validate, ChangedFieldsAreFound) {
  const auto fields = {&Action::stage, &Action::segment, &Action::micro_batch,
                       &Action::slice, &Action::peer,    &Action::value};
  for (const Schedule& schedule : valid_schedules()) {
    for (size_t index = 0; index < schedule.roles[0].actions.size(); ++index) {
      for (const auto field : fields) {
        for (const int32_t other : {-1, 0, 1, 2, 5, 1000, -7}) {
          Schedule mutated = schedule;
          if (mutated.roles[0].actions[index].*field == other) continue;
          mutated.roles[0].actions[index].*field = other;
          EXPECT_NE(validate(mutated, small_model()), "") << text(mutated.roles[0].actions[index]);
        }
      }
      Schedule mutated = schedule;
      mutated.roles[0].actions[index].paired = true;
      EXPECT_NE(validate(mutated, small_model()), "");
    }
  }
}

TEST(Validate, ChangedOpsAreFound) {
  for (const Schedule& schedule : valid_schedules()) {
    for (size_t index = 0; index < schedule.roles[0].actions.size(); ++index) {
      for (int op = 0; op <= static_cast<int>(Op::kFree); ++op) {
        Schedule mutated = schedule;
        if (mutated.roles[0].actions[index].op == static_cast<Op>(op)) continue;
        mutated.roles[0].actions[index].op = static_cast<Op>(op);
        EXPECT_NE(validate(mutated, small_model()), "") << text(mutated.roles[0].actions[index]);
      }
    }
  }
}

// Exchanging two actions is an error exactly when the outcome of the step changes.
TEST(Validate, ExchangedActionsAreJudgedByWhatTheyCompute) {
  size_t harmless = 0, harmful = 0;
  for (const Schedule& schedule : valid_schedules()) {
    const std::optional<Outcome> expected = judge(schedule);
    ASSERT_TRUE(expected.has_value());
    const size_t count = schedule.roles[0].actions.size();
    for (size_t i = 0; i < count; ++i) {
      for (size_t j = i + 1; j < count; ++j) {
        Schedule mutated = schedule;
        std::swap(mutated.roles[0].actions[i], mutated.roles[0].actions[j]);
        const bool same = judge(mutated) == expected;
        (same ? harmless : harmful) += 1;
        EXPECT_EQ(validate(mutated, small_model()).empty(), same)
            << text(schedule.roles[0].actions[i]) << " and " << text(schedule.roles[0].actions[j]) << ": "
            << validate(mutated, small_model());
      }
    }
  }
  EXPECT_GT(harmless, 100U);
  EXPECT_GT(harmful, 1000U);
}

TEST(Validate, StagesMustHoldEverySegmentOnce) {
  Schedule schedule = expand(accumulate(small_model(), 1), small_model());
  schedule.stages = {{0, 5, 0}};
  EXPECT_NE(validate(schedule, small_model()), "");
  schedule.stages = {{0, 6, 1}};
  EXPECT_NE(validate(schedule, small_model()), "");
  schedule.stages = {{1, 5, 0}};
  EXPECT_NE(validate(schedule, small_model()), "");
  schedule.stages = {{0, 3, 0}, {2, 4, 0}};
  EXPECT_NE(validate(schedule, small_model()), "");
}

Action message(Op op, Direction direction, int32_t stage, int32_t micro_batch, int32_t peer) {
  Action action;
  action.op = op;
  action.direction = direction;
  action.stream = direction == Direction::kForward ? Stream::kPipelineForward : Stream::kPipelineBackward;
  action.stage = stage;
  action.micro_batch = micro_batch;
  action.peer = peer;
  return action;
}

// Two roles, a stage each, cut in front of the logits: all forwards, then all backwards.
Schedule two_roles(int32_t micro_batches) {
  Schedule schedule;
  schedule.stages = {{0, 4, 0}, {4, 2, 1}};
  schedule.micro_batches = micro_batches;
  schedule.roles.resize(2);
  const auto add = [&](size_t role, const Action& action) { schedule.roles[role].actions.push_back(action); };
  const auto compute = [](Op op, int32_t stage, int32_t micro_batch) {
    Action action;
    action.op = op;
    action.stage = stage;
    action.micro_batch = micro_batch;
    return action;
  };
  for (int32_t micro_batch = 0; micro_batch < micro_batches; ++micro_batch) {
    add(0, compute(Op::kForward, 0, micro_batch));
    add(0, message(Op::kSend, Direction::kForward, 0, micro_batch, 1));
    add(1, message(Op::kReceive, Direction::kForward, 1, micro_batch, 0));
    add(1, compute(Op::kForward, 1, micro_batch));
  }
  for (int32_t micro_batch = 0; micro_batch < micro_batches; ++micro_batch) {
    add(1, compute(Op::kBackward, 1, micro_batch));
    add(1, message(Op::kSend, Direction::kBackward, 1, micro_batch, 0));
    add(0, message(Op::kReceive, Direction::kBackward, 0, micro_batch, 1));
    add(0, compute(Op::kBackward, 0, micro_batch));
  }
  return schedule;
}

TEST(Pipeline, MessagesStartWhereTheListHasThemAndAreWaitedFor) {
  const Schedule lowered = expand(two_roles(1), small_model());
  EXPECT_EQ(validate(lowered, small_model()), "");
  const auto messages = [&](size_t role) {
    std::vector<std::string> found;
    for (const Action& action : lowered.roles[role].actions) {
      if (action.op != Op::kSend && action.op != Op::kReceive) continue;
      found.push_back((action.part == Part::kStart ? "start " : "wait ") + text(action));
    }
    return found;
  };
  EXPECT_EQ(messages(0), (std::vector<std::string>{"start send(stage 0, micro-batch 0, peer 1, value 3)",
                                                   "start receive(stage 0, micro-batch 0, peer 1, value 3, gradient)",
                                                   "wait receive(stage 0, micro-batch 0, peer 1, value 3, gradient)",
                                                   "wait send(stage 0, micro-batch 0, peer 1, value 3)"}));
  EXPECT_EQ(messages(1), (std::vector<std::string>{"start receive(stage 1, micro-batch 0, peer 0, value 3)",
                                                   "wait receive(stage 1, micro-batch 0, peer 0, value 3)",
                                                   "start send(stage 1, micro-batch 0, peer 0, value 3, gradient)",
                                                   "wait send(stage 1, micro-batch 0, peer 0, value 3, gradient)"}));
}

TEST(Pipeline, WaitsOfTheStageLevelBecomeThoseOfTheLowered) {
  const Schedule lowered = expand(limit_run_ahead(two_roles(3), 1), small_model());
  for (size_t role = 0; role < 2; ++role) {
    EXPECT_EQ(lowered.roles[role].actions, expand(two_roles(3), small_model()).roles[role].actions);
  }
}

// Whatever is left out, done twice, or said of another stage, micro-batch, value, peer or direction.
TEST(Pipeline, DamagedListsAreRefused) {
  for (const Schedule& plain : {two_roles(1), two_roles(3), split_backward(two_roles(2))}) {
    const Schedule whole = expand(plain, small_model());
    ASSERT_EQ(validate(whole, small_model()), "");
    for (size_t role = 0; role < 2; ++role) {
      for (size_t index = 0; index < whole.roles[role].actions.size(); ++index) {
        const Action action = whole.roles[role].actions[index];
        Schedule changed = whole;
        std::vector<Action>& actions = changed.roles[role].actions;
        actions.erase(actions.begin() + static_cast<ptrdiff_t>(index));
        EXPECT_NE(validate(changed, small_model()), "") << "without " << text(action);
        actions.insert(actions.begin() + static_cast<ptrdiff_t>(index), 2, action);
        EXPECT_NE(validate(changed, small_model()), "") << "twice " << text(action);
        for (const auto field : {&Action::stage, &Action::micro_batch, &Action::value, &Action::peer}) {
          for (const int32_t other : {-7, -1, 0, 1, 2, 1000}) {
            changed = whole;
            if (action.*field == other) continue;
            changed.roles[role].actions[index].*field = other;
            EXPECT_NE(validate(changed, small_model()), "") << text(changed.roles[role].actions[index]);
          }
        }
        changed = whole;
        Direction& direction = changed.roles[role].actions[index].direction;
        direction = direction == Direction::kForward ? Direction::kBackward : Direction::kForward;
        EXPECT_NE(validate(changed, small_model()), "") << text(action) << " in the other direction";
      }
    }
  }
}

TEST(Pipeline, WaitsThatNobodyGetsOutOfAreNamed) {
  Schedule schedule = two_roles(2);
  std::vector<Action>& first = schedule.roles[0].actions;
  std::swap(first[1], first[3]);  // sends micro-batch 1 first
  EXPECT_EQ(validate(expand(schedule, small_model()), small_model()),
            "role 0, action 7: send(stage 0, micro-batch 1, peer 1, value 3): value 3 has not arrived");
  // One role runs a micro-batch forward and backward before the next, the other both forward first.
  schedule = two_roles(2);
  std::vector<Action>& one_by_one = schedule.roles[0].actions;  // F0 S0 F1 S1 R0 B0 R1 B1
  std::rotate(one_by_one.begin() + 2, one_by_one.begin() + 4, one_by_one.begin() + 6);
  EXPECT_EQ(
      validate(expand(schedule, small_model()), small_model()),
      "roles would wait for ever; role 0 in receive(stage 0, micro-batch 0, peer 1, value 3, gradient); role 1 in "
      "receive(stage 1, micro-batch 1, peer 0, value 3)");
}

TEST(Validate, ReasonsNameRoleActionAndWhy) {
  Schedule schedule = expand(accumulate(small_model(), 1), small_model());
  std::swap(schedule.roles[0].actions[0], schedule.roles[0].actions[1]);
  EXPECT_EQ(validate(schedule, small_model()),
            "role 0, action 0: forward(stage 0, segment 1, micro-batch 0): reads what segment 0 has not written");
}

}  // namespace
}  // namespace weft::schedule
