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
                                      "forward(stage 0, micro-batch 1)", "backward(stage 0, micro-batch 1)",
                                      "reduce(loss)", "reduce(norm)", "step"}));
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
      if (action.stage == -1) continue;
      Action& first = two_stages.roles[0].actions.back();
      Action second = first;
      (action.op == Op::kForward ? second : first).stage = 1;
      two_stages.roles[0].actions.push_back(second);
    }
    for (const Schedule& schedule :
         {plain, evaluate(model, micro_batches), split_backward(plain), two_stages, split_backward(two_stages)}) {
      schedules.push_back(schedule);
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

// What must hold at the stage level holds if its lowering is right.
std::optional<Outcome> judge(const Schedule& schedule) {
  const model::ModelDescription model = small_model();
  const bool lowered = std::ranges::any_of(schedule.roles[0].actions, [](const Action& a) { return a.segment != -1; });
  return run_abstractly(lowered ? schedule : expand(schedule, model), model);
}

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
  Schedule schedule = accumulate(small_model(), 1);
  schedule.stages = {{0, 5, 0}};
  EXPECT_NE(validate(schedule, small_model()), "");
  schedule.stages = {{0, 6, 1}};
  EXPECT_NE(validate(schedule, small_model()), "");
  schedule.stages = {{1, 5, 0}};
  EXPECT_NE(validate(schedule, small_model()), "");
  schedule.stages = {{0, 3, 0}, {2, 4, 0}};
  EXPECT_NE(validate(schedule, small_model()), "");
}

TEST(Validate, ReasonsNameRoleActionAndWhy) {
  Schedule schedule = expand(accumulate(small_model(), 1), small_model());
  std::swap(schedule.roles[0].actions[0], schedule.roles[0].actions[1]);
  EXPECT_EQ(validate(schedule, small_model()),
            "role 0, action 0: forward(stage 0, segment 1, micro-batch 0): reads what segment 0 has not written");
}

}  // namespace
}  // namespace weft::schedule
