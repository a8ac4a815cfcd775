#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "schedule/invalid.h"
#include "schedule/schedule.h"
#include "schedule/validate_messages.h"
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

// A segment, as schedules know it.
struct Unit {
  int32_t stage = 0;
  int32_t role = 0;
  std::vector<int32_t> before;   // segments whose outputs it reads
  std::vector<int32_t> readers;  // segments that read its outputs or, from further on, an input of it
};

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
      : schedule_(schedule),
        model_(model),
        values_(values_of(model)),
        units_(segment_units(schedule, model, values_)),
        micro_batches_(schedule.micro_batches) {
    for (const RoleSchedule& role : schedule.roles) {
      for (const Action& action : role.actions) {
        training_ |= action.op == Op::kBackward || action.op == Op::kBackwardInput ||
                     action.op == Op::kBackwardWeight || action.op == Op::kStep || action.purpose == Purpose::kNorm;
      }
    }
    const size_t cells = units_.size() * static_cast<size_t>(micro_batches_);
    forward_.resize(cells);
    input_.resize(cells);
    weight_.resize(cells);
    light_.resize(cells);
    recomputed_.resize(cells);
    weights_added_.resize(units_.size());
  }

  void run() {
    for (size_t role = 0; role < schedule_.roles.size(); ++role) {
      role_ = static_cast<int32_t>(role);
      loss_ = norm_ = step_ = 0;
      held_.assign(values_.size() * static_cast<size_t>(micro_batches_), Held{});
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
  // A value of a micro-batch on the role.
  struct Held {
    enum class State : uint8_t { kNone, kThere, kFreed };
    State state = State::kNone;
    bool gradient_arrived = false;
    int32_t last_stage = -1;  // that wrote, read or moved it
  };

  [[nodiscard]] size_t cell(int32_t number, int32_t micro_batch) const {
    return static_cast<size_t>(number) * static_cast<size_t>(micro_batches_) + static_cast<size_t>(micro_batch);
  }
  Held& held(int32_t value, int32_t micro_batch) { return held_[cell(value, micro_batch)]; }
  [[nodiscard]] const Unit& unit(int32_t segment) const { return units_[static_cast<size_t>(segment)]; }
  [[nodiscard]] const model::SegmentDescription& segment(int32_t index) const {
    return model_.segments[static_cast<size_t>(index)];
  }
  [[nodiscard]] const Value& value(int32_t index) const { return values_[static_cast<size_t>(index)]; }
  [[nodiscard]] bool is_here(int32_t segment) const { return unit(segment).role == role_; }

  // Fields that the op gives no meaning must be at rest, so that nothing is silently ignored.
  void check_fields(const Action& action) const {
    const bool message = action.op == Op::kSend || action.op == Op::kReceive;
    const bool traffic = is_traffic(action.op);
    const bool tied = action.op == Op::kReduce && action.purpose == Purpose::kTied;
    const bool of_value = action.op == Op::kRedistribute || message;
    const bool compute = action.op == Op::kForward || action.op == Op::kBackward || action.op == Op::kBackwardInput ||
                         action.op == Op::kBackwardWeight || action.op == Op::kRecompute;
    const bool free = action.op == Op::kFree;
    if (!compute && !free && !traffic && !message && action.op != Op::kReduce && action.op != Op::kStep) {
      fail("not known to this validator");
    }
    const Stream stream = !message                                  ? Stream::kCompute
                          : action.direction == Direction::kForward ? Stream::kPipelineForward
                                                                    : Stream::kPipelineBackward;
    if (action.stream != stream) fail("the stream is wrong");
    if ((action.part != Part::kWhole) != message) fail("messages have a start and a wait, everything else is whole");
    if (action.light && action.op != Op::kForward) fail("only a forward is light");
    if (action.slice != -1 || action.paired) fail("has neither slice nor partner");
    if ((action.peer != -1) != (message || tied)) fail("peer is wrong");
    if ((action.purpose != Purpose::kNone) != (action.op == Op::kReduce)) fail("only a reduction has a purpose");
    if ((action.stage != -1) != (compute || free || of_value)) fail("stage is wrong");
    if ((action.micro_batch != -1) != (compute || free || of_value)) fail("micro-batch is wrong");
    if ((action.segment != -1) != compute) fail("segment is wrong");
    if ((action.value != -1) != (free || of_value)) fail("value is wrong");
    if ((action.bucket != -1) != ((traffic && !of_value) || tied)) fail("bucket is wrong");
    if (action.direction == Direction::kBackward && !of_value && !tied) fail("has no direction");
    if (compute || free || message) {
      if (action.micro_batch < 0 || action.micro_batch >= micro_batches_) fail("no such micro-batch");
      if (action.stage < 0 || action.stage >= static_cast<int64_t>(schedule_.stages.size())) fail("no such stage");
    }
    if ((free || message) && (action.value < 0 || action.value >= static_cast<int64_t>(values_.size()))) {
      fail("no such value");
    }
  }

  void visit(const Action& action) {
    const bool borrowed = action.op == Op::kReduce && action.purpose == Purpose::kTied;
    if (is_traffic(action.op) || borrowed) return;  // validate_traffic.h
    if (step_ > 0) fail("comes after the step");
    switch (action.op) {
      case Op::kForward:
        light_[cell(segment_of(action), action.micro_batch)] = action.light;
        return forward(segment_of(action), action.micro_batch);
      case Op::kRecompute:
        return recompute(segment_of(action), action.micro_batch);
      case Op::kBackward:
        backward_input(segment_of(action), action.micro_batch);
        return backward_weight(segment_of(action), action.micro_batch);
      case Op::kBackwardInput:
        return backward_input(segment_of(action), action.micro_batch);
      case Op::kBackwardWeight:
        return backward_weight(segment_of(action), action.micro_batch);
      case Op::kSend:
        return send(action);
      case Op::kReceive:
        return receive(action);
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

  int32_t segment_of(const Action& action) const {
    if (action.segment < 0 || action.segment >= static_cast<int64_t>(units_.size())) fail("no such segment");
    const Unit& known = unit(action.segment);
    if (known.stage != action.stage) fail("the segment lies in stage {}", known.stage);
    if (known.role != role_) fail("the stage belongs to role {}", known.role);
    return action.segment;
  }

  void forward(int32_t index, int32_t micro_batch) {
    if (loss_ > 0) fail("comes after the loss was reduced");
    if (forward_[cell(index, micro_batch)]) fail("done before");
    for (const int id : segment(index).inputs) {
      const int32_t writer = value(id).writer;
      if (is_here(writer) && !forward_[cell(writer, micro_batch)])
        fail("reads what segment {} has not written", writer);
      touch(id, micro_batch, unit(index).stage);
    }
    for (const int id : segment(index).outputs) {
      held(id, micro_batch).state = Held::State::kThere;
      touch(id, micro_batch, unit(index).stage);
    }
    forward_[cell(index, micro_batch)] = true;
  }

  // What the forward wrote was freed, so that nothing is held twice.
  void recompute(int32_t index, int32_t micro_batch) {
    if (!forward_[cell(index, micro_batch)] || !light_[cell(index, micro_batch)]) fail("its forward was not light");
    if (input_[cell(index, micro_batch)]) fail("comes after the backward");
    if (recomputed_[cell(index, micro_batch)]) fail("done before");
    for (const int id : segment(index).inputs) {
      const int32_t writer = value(id).writer;
      if (is_here(writer) && unit(writer).stage == unit(index).stage && light_[cell(writer, micro_batch)] &&
          !recomputed_[cell(writer, micro_batch)]) {
        fail("reads what segment {} has not recomputed", writer);
      }
      touch(id, micro_batch, unit(index).stage);
    }
    for (const int id : segment(index).outputs) {
      if (held(id, micro_batch).state != Held::State::kFreed) fail("value {} is still there", id);
      held(id, micro_batch).state = Held::State::kThere;
      touch(id, micro_batch, unit(index).stage);
    }
    recomputed_[cell(index, micro_batch)] = true;
  }

  // A value is read, written or moved by a stage.
  void touch(int32_t id, int32_t micro_batch, int32_t stage) {
    Held& now = held(id, micro_batch);
    if (now.state == Held::State::kNone) fail("value {} has not arrived", id);
    if (now.state == Held::State::kFreed) fail("value {} is freed", id);
    now.last_stage = stage;
  }

  void backward_input(int32_t index, int32_t micro_batch) {
    if (!forward_[cell(index, micro_batch)]) fail("comes before its forward");
    if (input_[cell(index, micro_batch)]) fail("done before");
    if (light_[cell(index, micro_batch)] && !recomputed_[cell(index, micro_batch)]) fail("comes before its recompute");
    for (const int32_t reader : unit(index).readers) {
      if (is_here(reader) && !input_[cell(reader, micro_batch)]) fail("needs the gradient of segment {} first", reader);
    }
    for (const std::vector<int>* ids : {&segment(index).inputs, &segment(index).outputs}) {
      for (const int id : *ids) check_gradient_arrived(id, micro_batch);
    }
    input_[cell(index, micro_batch)] = true;
  }

  void check_gradient_arrived(int32_t id, int32_t micro_batch) {
    for (const int32_t reader : value(id).readers) {
      if (is_here(reader) || held(id, micro_batch).gradient_arrived) continue;
      fail("the gradient of value {} from segment {} has not arrived", id, reader);
    }
  }

  void backward_weight(int32_t index, int32_t micro_batch) {
    if (norm_ > 0) fail("comes after the norm");
    if (!input_[cell(index, micro_batch)]) fail("comes before its input part");
    if (weight_[cell(index, micro_batch)]) fail("done before");
    int32_t& added = weights_added_[static_cast<size_t>(index)];
    if (micro_batch != added) fail("weight gradients are added in ascending micro-batches; expected {}", added);
    ++added;
    weight_[cell(index, micro_batch)] = true;
  }

  // What a message carries must be whole when it starts; order and peers are judged by validate_messages.h.
  void send(const Action& action) {
    if (action.part == Part::kWait) return;
    if (action.direction == Direction::kForward) return touch(action.value, action.micro_batch, action.stage);
    for (const int32_t reader : value(action.value).readers) {
      if (is_here(reader) && !input_[cell(reader, action.micro_batch)])
        fail("lacks the gradient of segment {}", reader);
      if (!is_here(reader)) check_gradient_arrived(action.value, action.micro_batch);
    }
  }

  void receive(const Action& action) {
    if (action.part != Part::kWait) return;
    Held& now = held(action.value, action.micro_batch);
    if (action.direction == Direction::kBackward) {
      if (std::exchange(now.gradient_arrived, true)) fail("arrived before");
      return;
    }
    if (now.state != Held::State::kNone) fail("arrived before");
    now.state = Held::State::kThere;
    now.last_stage = action.stage;
  }

  // Every reader must have run, so nothing can read a value behind its free.
  void free(const Action& action) {
    Held& now = held(action.value, action.micro_batch);
    if (now.state == Held::State::kNone) fail("the value is not written");
    if (now.state == Held::State::kFreed) fail("freed before");
    for (const int32_t reader : value(action.value).readers) {
      if (!is_here(reader)) continue;
      const size_t read = cell(reader, action.micro_batch);
      if (!forward_[read] || (reads_again(action.value, reader, action.micro_batch) && !recomputed_[read])) {
        fail("segment {} has yet to read it", reader);
      }
    }
    if (now.last_stage != action.stage) fail("the stage is not that of the last use");
    now.state = Held::State::kFreed;
  }

  // Whether a reader's Recompute reads this life of a value: not the first one of what is recomputed in its stage.
  [[nodiscard]] bool reads_again(int32_t id, int32_t reader, int32_t micro_batch) const {
    const int32_t writer = value(id).writer;
    const bool same_stage = is_here(writer) && unit(writer).stage == unit(reader).stage;
    const bool first_of_two =
        same_stage && light_[cell(writer, micro_batch)] && !recomputed_[cell(writer, micro_batch)];
    const bool second = is_here(writer) && recomputed_[cell(writer, micro_batch)];
    return light_[cell(reader, micro_batch)] && !first_of_two && (!second || same_stage);
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

  // Of a stage that does not train: no weight gradients.
  void check_all(const std::vector<bool>& done, std::string_view what) const {
    for (int32_t index = 0; index < static_cast<int64_t>(units_.size()); ++index) {
      const bool frozen = &done == &weight_ && !schedule_.stages[static_cast<size_t>(unit(index).stage)].trains;
      if (!is_here(index) || frozen) continue;
      for (int32_t micro_batch = 0; micro_batch < micro_batches_; ++micro_batch) {
        if (!done[cell(index, micro_batch)])
          fail("{} of segment {}, micro-batch {} is missing", what, index, micro_batch);
      }
    }
  }

  void finish_role() const {
    if (loss_ != 1) fail("role {}: the loss is not reduced", role_);
    if (training_ && step_ != 1) fail("role {}: the step is missing", role_);
    for (size_t index = 0; index < held_.size(); ++index) {
      if (held_[index].state != Held::State::kThere) continue;
      const auto count = static_cast<size_t>(micro_batches_);
      fail("role {}: value {} of micro-batch {} is never freed", role_, index / count, index % count);
    }
  }

  const Schedule& schedule_;
  const model::ModelDescription& model_;
  std::vector<Value> values_;
  std::vector<Unit> units_;
  int32_t micro_batches_;
  bool training_ = false;
  std::vector<bool> forward_, input_, weight_, light_, recomputed_;  // a segment and micro-batch each
  std::vector<Held> held_;                                           // a value and micro-batch each, of the role
  std::vector<int32_t> weights_added_;
  int32_t role_ = 0;
  int loss_ = 0, norm_ = 0, step_ = 0;
};

}  // namespace

std::string validate(const Schedule& schedule, const model::ModelDescription& model, const Layout& layout) {
  try {
    check_stages(schedule, model);
    Walk(schedule, model).run();
    validate_messages(schedule);
    return validate_traffic(schedule, model, layout);
  } catch (const Invalid& invalid) {
    return invalid.reason;
  }
}

}  // namespace weft::schedule
