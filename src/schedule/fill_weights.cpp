#include "schedule/fill_weights.h"

#include <algorithm>
#include <utility>

#include "schedule/generators.h"

namespace weft::schedule {
namespace {

constexpr double kNever = -1;
constexpr double kRounding = 1e-9;

}  // namespace

WeightFiller::WeightFiller(std::vector<Stage> stages, int32_t micro_batches, const Durations& durations, double memory,
                           double weight_share)
    : stages_(std::move(stages)),
      micro_batches_(static_cast<size_t>(micro_batches)),
      durations_(durations),
      memory_(memory + kRounding),
      weight_share_(weight_share),
      forward_ends_(stages_.size() * micro_batches_),
      input_ends_(forward_ends_.size()) {
  size_t roles = 0;
  for (const Stage& stage : stages_) roles = std::max(roles, static_cast<size_t>(stage.role) + 1);
  roles_.resize(roles);
}

Filled WeightFiller::fill(const std::vector<RoleOrder>& orders, Schedule* result) {
  result_ = result;
  out_of_memory_ = false;
  std::ranges::fill(forward_ends_, kNever);
  std::ranges::fill(input_ends_, kNever);
  open_.clear();
  for (size_t role = roles_.size(); role-- > 0;) {
    std::vector<Computation> inputs = std::move(roles_[role].inputs);
    inputs.clear();
    roles_[role] = {};
    roles_[role].inputs = std::move(inputs);
    open_.push_back(role);
  }
  while (!open_.empty() && !out_of_memory_) {
    const size_t role = open_.back();
    open_.pop_back();
    roles_[role].waiting = true;
    while (roles_[role].next < orders[role].computations.size() && advance(role, orders[role])) {
    }
  }
  Filled filled{0, 0};
  for (size_t role = 0; role < roles_.size(); ++role) {
    Role& state = roles_[role];
    if (state.next < orders[role].computations.size()) return {};
    while (state.weights < state.inputs.size()) add_weight(role);
    filled.makespan = std::max(filled.makespan, state.now);
    filled.span = std::max(filled.span, state.now - state.begin);
  }
  return filled;
}

size_t WeightFiller::cell(int32_t stage, int32_t micro_batch) const {
  return static_cast<size_t>(stage) * micro_batches_ + static_cast<size_t>(micro_batch);
}

// When the inputs of a computation are there, or kNever.
double WeightFiller::inputs_there(const Computation& computation) const {
  const int32_t stage = computation.stage, micro_batch = computation.micro_batch;
  const auto after = [&](const std::vector<double>& ends, int32_t maker) {
    const double end = ends[cell(maker, micro_batch)];
    const bool far = stages_[static_cast<size_t>(maker)].role != stages_[static_cast<size_t>(stage)].role;
    return end == kNever || !far ? end : end + durations_.message;
  };
  if (computation.forward) return stage == 0 ? 0 : after(forward_ends_, stage - 1);
  const bool last = static_cast<size_t>(stage) + 1 == stages_.size();
  return last ? forward_ends_[cell(stage, micro_batch)] : after(input_ends_, stage + 1);
}

bool WeightFiller::advance(size_t role, const RoleOrder& order) {
  Role& state = roles_[role];
  const Computation& computation = order.computations[state.next];
  const double there = inputs_there(computation);
  if (there == kNever) return false;
  while (state.weights < state.inputs.size() && there > state.now) {
    const size_t stage = static_cast<size_t>(state.inputs[state.weights].stage);
    if (there - state.now < order.gap * durations_.stages[stage].weight) break;
    add_weight(role);
  }
  while (computation.forward && state.held + 1 > memory_) {
    if (state.weights == state.inputs.size()) {
      out_of_memory_ = true;
      return false;
    }
    add_weight(role);
  }
  const double begin = std::max(state.now, there);
  if (state.next++ == 0) state.begin = begin;
  const Durations::OfStage& times = durations_.stages[static_cast<size_t>(computation.stage)];
  state.now = begin + (computation.forward ? times.forward : times.input);
  finish(role, computation);
  return true;
}

void WeightFiller::finish(size_t role, const Computation& computation) {
  Role& state = roles_[role];
  const size_t here = cell(computation.stage, computation.micro_batch);
  if (computation.forward) {
    state.held += 1;
    forward_ends_[here] = state.now;
    add(Op::kForward, role, computation);
  } else {
    state.held -= 1 - weight_share_;
    input_ends_[here] = state.now;
    state.inputs.push_back(computation);
    add(Op::kBackwardInput, role, computation);
  }
  const int64_t reader = int64_t{computation.stage} + (computation.forward ? 1 : -1);
  if (reader < 0 || reader >= static_cast<int64_t>(stages_.size())) return;
  const size_t other = static_cast<size_t>(stages_[static_cast<size_t>(reader)].role);
  if (other != role && std::exchange(roles_[other].waiting, false)) open_.push_back(other);
}

void WeightFiller::add_weight(size_t role) {
  Role& state = roles_[role];
  const Computation& computation = state.inputs[state.weights++];
  state.now += durations_.stages[static_cast<size_t>(computation.stage)].weight;
  state.held -= weight_share_;
  add(Op::kBackwardWeight, role, computation);
}

void WeightFiller::add(Op op, size_t role, const Computation& made) {
  if (result_ == nullptr) return;
  result_->roles[role].actions.push_back(computation(op, made.stage, made.micro_batch));
}

Durations durations_of(const GenerateOptions& options, size_t stages) {
  Durations result = durations(options.times, options.stage_times, stages, stages / static_cast<size_t>(options.roles));
  bool trains_before = false;
  for (size_t stage = 0; stage < options.frozen.size(); ++stage) {
    if (options.frozen[stage]) result.stages[stage].weight = 0;
    trains_before = trains_before || !options.frozen[stage];
    if (!trains_before) result.stages[stage].input = 0;
  }
  return result;
}

}  // namespace weft::schedule
