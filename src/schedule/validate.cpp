#include <algorithm>

#include <fmt/format.h>

#include "schedule/invalid.h"
#include "schedule/schedule.h"
#include "schedule/validate_traffic.h"

namespace weft::schedule {
namespace {

void check_stages(const Schedule& schedule, const model::ModelDescription& model) {
  if (schedule.micro_batches < 1) fail("no micro-batches");
  if (schedule.roles.empty()) fail("no roles");
  int64_t next = 0;
  for (size_t index = 0; index < schedule.stages.size(); ++index) {
    const Stage& stage = schedule.stages[index];
    if (stage.first_segment != next || stage.segment_count < 0) {
      fail("stage {} holds segments from {}, expected from {}", index, stage.first_segment, next);
    }
    if (stage.role < 0 || stage.role >= static_cast<int64_t>(schedule.roles.size())) {
      fail("stage {} belongs to role {} of {}", index, stage.role, schedule.roles.size());
    }
    next += stage.segment_count;
  }
  if (next != static_cast<int64_t>(model.segments.size())) {
    fail("the stages hold {} segments, the model has {}", next, model.segments.size());
  }
}

// What Forward and Backward name: a stage at the stage level, a segment at the lowered one.
struct Unit {
  int32_t stage = 0;
  int32_t role = 0;
  std::vector<int32_t> before;   // units whose outputs it reads
  std::vector<int32_t> readers;  // units that read its outputs or, from further on, an input of it
};

std::vector<Unit> stage_units(const Schedule& schedule) {
  std::vector<Unit> units(schedule.stages.size());
  for (size_t index = 0; index < units.size(); ++index) {
    const auto stage = static_cast<int32_t>(index);
    units[index].stage = stage;
    units[index].role = schedule.stages[index].role;
    if (index > 0) units[index].before.push_back(stage - 1);
    if (index + 1 < units.size()) units[index].readers.push_back(stage + 1);
  }
  return units;
}

struct Value {
  int32_t writer = -1;
  std::vector<int32_t> readers;  // ascending
};

std::vector<Value> values_of(const model::ModelDescription& model) {
  std::vector<Value> values(model.values.size());
  for (size_t index = 0; index < model.segments.size(); ++index) {
    const auto segment = static_cast<int32_t>(index);
    for (const int value : model.segments[index].inputs) values[static_cast<size_t>(value)].readers.push_back(segment);
    for (const int value : model.segments[index].outputs) values[static_cast<size_t>(value)].writer = segment;
  }
  return values;
}

std::vector<Unit> segment_units(const Schedule& schedule, const model::ModelDescription& model,
                                const std::vector<Value>& values) {
  std::vector<Unit> units(model.segments.size());
  for (size_t index = 0; index < schedule.stages.size(); ++index) {
    const Stage& stage = schedule.stages[index];
    for (int32_t i = 0; i < stage.segment_count; ++i) {
      Unit& unit = units[static_cast<size_t>(stage.first_segment + i)];
      unit.stage = static_cast<int32_t>(index);
      unit.role = stage.role;
    }
  }
  for (size_t index = 0; index < units.size(); ++index) {
    Unit& unit = units[index];
    for (const int id : model.segments[index].inputs) {
      const Value& value = values[static_cast<size_t>(id)];
      unit.before.push_back(value.writer);
      // Gradients of a value are added in the order of its readers, the last first.
      std::ranges::copy_if(value.readers, std::back_inserter(unit.readers),
                           [&](int32_t reader) { return reader > static_cast<int32_t>(index); });
    }
    for (const int id : model.segments[index].outputs) {
      std::ranges::copy(values[static_cast<size_t>(id)].readers, std::back_inserter(unit.readers));
    }
  }
  return units;
}

// Walks each role's actions in order and keeps what was done.
class Walk {
 public:
  Walk(const Schedule& schedule, const model::ModelDescription& model)
      : schedule_(schedule), values_(values_of(model)), micro_batches_(schedule.micro_batches) {
    for (const RoleSchedule& role : schedule.roles) {
      for (const Action& action : role.actions) {
        if (action.op == Op::kForward && action.segment != -1) lowered_ = true;
        training_ |= action.op == Op::kBackward || action.op == Op::kBackwardInput ||
                     action.op == Op::kBackwardWeight || action.op == Op::kStep || action.purpose == Purpose::kNorm;
      }
    }
    units_ = lowered_ ? segment_units(schedule, model, values_) : stage_units(schedule);
    const size_t cells = units_.size() * static_cast<size_t>(micro_batches_);
    forward_.resize(cells);
    input_.resize(cells);
    weight_.resize(cells);
    weights_added_.resize(units_.size());
    if (lowered_) freed_.resize(values_.size() * static_cast<size_t>(micro_batches_));
  }

  [[nodiscard]] bool lowered() const { return lowered_; }

  void run() {
    for (size_t role = 0; role < schedule_.roles.size(); ++role) {
      role_ = static_cast<int32_t>(role);
      loss_ = norm_ = step_ = 0;
      const RoleSchedule& list = schedule_.roles[role];
      for (size_t index = 0; index < list.actions.size(); ++index) {
        try {
          check_fields(list.actions[index]);
          visit(list.actions[index]);
        } catch (const Invalid& invalid) {
          fail("role {}, action {}: {}: {}", role, index, text(list.actions[index]), invalid.reason);
        }
      }
      finish_role();
    }
  }

 private:
  [[nodiscard]] size_t cell(int32_t unit, int32_t micro_batch) const {
    return static_cast<size_t>(unit) * static_cast<size_t>(micro_batches_) + static_cast<size_t>(micro_batch);
  }
  [[nodiscard]] std::string unit_text(int32_t unit) const {
    return fmt::format("{} {}", lowered_ ? "segment" : "stage", unit);
  }

  // Fields that the op gives no meaning must be at rest, so that nothing is silently ignored.
  void check_fields(const Action& action) const {
    const bool traffic = is_traffic(action.op);
    const bool of_value = action.op == Op::kRedistribute;
    const bool of_micro_batch = of_value || action.op == Op::kReduceGradient;
    const bool compute = action.op == Op::kForward || action.op == Op::kBackward || action.op == Op::kBackwardInput ||
                         action.op == Op::kBackwardWeight;
    const bool free = action.op == Op::kFree;
    if (!compute && !free && !traffic && action.op != Op::kReduce && action.op != Op::kStep) {
      fail("not known to this validator");
    }
    if ((free || traffic) && !lowered_) fail("stands at the lowered level only");
    if (action.part != Part::kWhole || action.stream != Stream::kCompute) fail("must be whole and on compute");
    if (action.slice != -1 || action.peer != -1 || action.paired) fail("has neither slice nor peer nor partner");
    if ((action.purpose != Purpose::kNone) != (action.op == Op::kReduce)) fail("only a reduction has a purpose");
    if ((action.stage != -1) != (compute || free || of_value)) fail("stage is wrong");
    if ((action.micro_batch != -1) != (compute || free || of_micro_batch)) fail("micro-batch is wrong");
    if ((action.segment != -1) != (compute && lowered_)) fail("segment is wrong");
    if ((action.value != -1) != (free || of_value)) fail("value is wrong");
    if ((action.bucket != -1) != (traffic && !of_value)) fail("bucket is wrong");
    if (action.direction == Direction::kBackward && !of_value) fail("only a redistribution has a direction");
    if (compute || free) {
      if (action.micro_batch < 0 || action.micro_batch >= micro_batches_) fail("no such micro-batch");
      if (action.stage < 0 || action.stage >= static_cast<int64_t>(schedule_.stages.size())) fail("no such stage");
    }
  }

  void visit(const Action& action) {
    if (is_traffic(action.op)) return;  // validate_traffic.h
    if (step_ > 0) fail("comes after the step");
    switch (action.op) {
      case Op::kForward:
        return forward(unit_of(action), action.micro_batch);
      case Op::kBackward:
        backward_input(unit_of(action), action.micro_batch);
        return backward_weight(unit_of(action), action.micro_batch);
      case Op::kBackwardInput:
        return backward_input(unit_of(action), action.micro_batch);
      case Op::kBackwardWeight:
        return backward_weight(unit_of(action), action.micro_batch);
      case Op::kFree:
        return free(action);
      case Op::kReduce:
        return reduce(action.purpose);
      case Op::kStep:
        if (norm_ != 1) fail("the norm is not known");
        ++step_;
        return;
      default:
        fail("not known to this validator");
    }
  }

  int32_t unit_of(const Action& action) const {
    const int32_t unit = lowered_ ? action.segment : action.stage;
    if (unit < 0 || unit >= static_cast<int64_t>(units_.size())) fail("no such {}", lowered_ ? "segment" : "stage");
    const Unit& known = units_[static_cast<size_t>(unit)];
    if (known.stage != action.stage) fail("the segment lies in stage {}", known.stage);
    if (known.role != role_) fail("the stage belongs to role {}", known.role);
    return unit;
  }

  void forward(int32_t unit, int32_t micro_batch) {
    if (loss_ > 0) fail("comes after the loss was reduced");
    if (forward_[cell(unit, micro_batch)]) fail("done before");
    for (const int32_t before : units_[static_cast<size_t>(unit)].before) {
      if (units_[static_cast<size_t>(before)].role == role_ && !forward_[cell(before, micro_batch)]) {
        fail("reads what {} has not written", unit_text(before));
      }
    }
    forward_[cell(unit, micro_batch)] = true;
  }

  void backward_input(int32_t unit, int32_t micro_batch) {
    if (!forward_[cell(unit, micro_batch)]) fail("comes before its forward");
    if (input_[cell(unit, micro_batch)]) fail("done before");
    for (const int32_t reader : units_[static_cast<size_t>(unit)].readers) {
      if (units_[static_cast<size_t>(reader)].role == role_ && !input_[cell(reader, micro_batch)]) {
        fail("needs the gradient of {} first", unit_text(reader));
      }
    }
    input_[cell(unit, micro_batch)] = true;
  }

  void backward_weight(int32_t unit, int32_t micro_batch) {
    if (norm_ > 0) fail("comes after the norm");
    if (!input_[cell(unit, micro_batch)]) fail("comes before its input part");
    if (weight_[cell(unit, micro_batch)]) fail("done before");
    int32_t& added = weights_added_[static_cast<size_t>(unit)];
    if (micro_batch != added) fail("weight gradients are added in ascending micro-batches; expected {}", added);
    ++added;
    weight_[cell(unit, micro_batch)] = true;
  }

  // Every reader must have run, so nothing can read a value behind its free.
  void free(const Action& action) {
    if (action.value < 0 || action.value >= static_cast<int64_t>(values_.size())) fail("no such value");
    const Value& value = values_[static_cast<size_t>(action.value)];
    if (!forward_[cell(value.writer, action.micro_batch)]) fail("the value is not written");
    int32_t last = value.writer;
    for (const int32_t reader : value.readers) {
      if (units_[static_cast<size_t>(reader)].role != role_) continue;
      if (!forward_[cell(reader, action.micro_batch)]) fail("{} has yet to read it", unit_text(reader));
      last = reader;
    }
    if (units_[static_cast<size_t>(last)].stage != action.stage) fail("the stage is not that of the last use");
    const size_t index = cell(action.value, action.micro_batch);
    if (freed_[index]) fail("freed before");
    freed_[index] = true;
  }

  void reduce(Purpose purpose) {
    if (purpose == Purpose::kLoss) {
      check_all(forward_, "forward");
      if (++loss_ > 1) fail("done before");
    } else if (purpose == Purpose::kNorm) {
      check_all(weight_, "weight gradient");
      if (++norm_ > 1) fail("done before");
    } else {
      fail("not known to this validator");
    }
  }

  void check_all(const std::vector<bool>& done, std::string_view what) const {
    for (int32_t unit = 0; unit < static_cast<int64_t>(units_.size()); ++unit) {
      if (units_[static_cast<size_t>(unit)].role != role_) continue;
      for (int32_t micro_batch = 0; micro_batch < micro_batches_; ++micro_batch) {
        if (!done[cell(unit, micro_batch)]) {
          fail("{} of {}, micro-batch {} is missing", what, unit_text(unit), micro_batch);
        }
      }
    }
  }

  void finish_role() const {
    if (loss_ != 1) fail("role {}: the loss is not reduced", role_);
    if (training_ && step_ != 1) fail("role {}: the step is missing", role_);
    for (size_t value = 0; lowered_ && value < values_.size(); ++value) {
      if (units_[static_cast<size_t>(values_[value].writer)].role != role_) continue;
      for (int32_t micro_batch = 0; micro_batch < micro_batches_; ++micro_batch) {
        if (!freed_[cell(static_cast<int32_t>(value), micro_batch)]) {
          fail("role {}: value {} of micro-batch {} is never freed", role_, value, micro_batch);
        }
      }
    }
  }

  const Schedule& schedule_;
  std::vector<Value> values_;
  int32_t micro_batches_;
  bool lowered_ = false;
  bool training_ = false;
  std::vector<Unit> units_;
  std::vector<bool> forward_, input_, weight_;  // a cell each
  std::vector<bool> freed_;                     // a value and micro-batch each
  std::vector<int32_t> weights_added_;
  int32_t role_ = 0;
  int loss_ = 0, norm_ = 0, step_ = 0;
};

}  // namespace

std::string validate(const Schedule& schedule, const model::ModelDescription& model, const Layout& layout) {
  try {
    check_stages(schedule, model);
    Walk walk(schedule, model);
    walk.run();
    return walk.lowered() ? validate_traffic(schedule, model, layout) : "";
  } catch (const Invalid& invalid) {
    return invalid.reason;
  }
}

}  // namespace weft::schedule
