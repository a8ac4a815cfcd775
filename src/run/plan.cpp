#include "run/plan.h"

#include <algorithm>

#include "base/hash.h"
#include "base/json.h"
#include "run/layout.h"
#include "schedule/text_form.h"

namespace weft::run {
namespace {

OrderedJson degrees(const schedule::Layout& layout) {
  return {{"pipeline", layout.pipeline}, {"data", layout.data},     {"fsdp", layout.fsdp},
          {"context", layout.context},   {"tensor", layout.tensor}, {"sequence", layout.sequence},
          {"zero", layout.zero}};
}

// The layers of a stage, the first and the last; null where it has none.
OrderedJson layers(const model::ModelDescription& model, const schedule::Stage& stage) {
  int first = -1, last = -1;
  for (int32_t segment = stage.first_segment; segment < stage.first_segment + stage.segment_count; ++segment) {
    const int layer = model.segments[static_cast<size_t>(segment)].layer;
    if (layer < 0) continue;
    if (first < 0) first = layer;
    last = layer;
  }
  if (first < 0) return nullptr;
  return {first, last};
}

}  // namespace

std::string plan_text(const RunNode& run, const model::ModelDescription& model, const schedule::Schedule& step) {
  const schedule::Layout layout = layout_of(run);
  OrderedJson stages = OrderedJson::array();
  for (const schedule::Stage& stage : step.stages) {
    stages.push_back({{"role", stage.role}, {"layers", layers(model, stage)}, {"trains", stage.trains}});
  }
  OrderedJson actions = OrderedJson::array();
  for (const schedule::RoleSchedule& role : step.roles) actions.push_back(role.actions.size());
  const OrderedJson plan = {
      {"ranks", layout.ranks()},
      {"parallel", degrees(layout)},
      {"schedule", {{"kind", run.schedule.order}, {"micro_batches", step.micro_batches}, {"actions", actions}}},
      {"stages", stages},
      {"hash", hash_text(schedule::hash(step))}};
  return dump_json(plan, 2) + "\n";
}

}  // namespace weft::run
