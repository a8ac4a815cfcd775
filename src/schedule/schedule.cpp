#include "schedule/schedule.h"

#include <utility>

#include "base/check.h"

namespace weft::schedule {
namespace {

Action compute(Op op, int32_t stage, int32_t micro_batch) {
  Action action;
  action.op = op;
  action.stage = stage;
  action.micro_batch = micro_batch;
  return action;
}

Schedule one_stage(const model::ModelDescription& model, int32_t micro_batches) {
  WEFT_CHECK(micro_batches > 0);
  Schedule schedule;
  schedule.stages = {{.segment_count = static_cast<int32_t>(model.segments.size())}};
  schedule.roles.resize(1);
  schedule.micro_batches = micro_batches;
  return schedule;
}

}  // namespace

Schedule accumulate(const model::ModelDescription& model, int32_t micro_batches) {
  Schedule schedule = one_stage(model, micro_batches);
  std::vector<Action>& actions = schedule.roles[0].actions;
  for (int32_t micro_batch = 0; micro_batch < micro_batches; ++micro_batch) {
    actions.push_back(compute(Op::kForward, 0, micro_batch));
    actions.push_back(compute(Op::kBackward, 0, micro_batch));
  }
  return schedule;
}

Schedule evaluate(const model::ModelDescription& model, int32_t micro_batches) {
  Schedule schedule = one_stage(model, micro_batches);
  std::vector<Action>& actions = schedule.roles[0].actions;
  for (int32_t micro_batch = 0; micro_batch < micro_batches; ++micro_batch) {
    actions.push_back(compute(Op::kForward, 0, micro_batch));
  }
  return schedule;
}

}  // namespace weft::schedule
