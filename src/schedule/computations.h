// The computations of a stage-level schedule on a grid of stages and micro-batches: what passes and timeline share.
#pragma once

#include <cstdint>
#include <vector>

#include "schedule/schedule.h"

namespace weft::schedule {

[[nodiscard]] inline bool is_computation(Op op) {
  return op == Op::kForward || op == Op::kBackward || op == Op::kBackwardInput || op == Op::kBackwardWeight ||
         op == Op::kRecompute;
}

[[nodiscard]] inline bool makes_gradient(Op op) { return op == Op::kBackward || op == Op::kBackwardInput; }

[[nodiscard]] inline bool adds_weight_gradient(Op op) { return op == Op::kBackward || op == Op::kBackwardWeight; }

// Actions from `first` on that run as one: 2 where it is paired, otherwise 1.
[[nodiscard]] inline size_t unit_length(const std::vector<Action>& actions, size_t first) {
  return actions[first].paired && first + 1 < actions.size() ? 2 : 1;
}

class ComputationGrid {
 public:
  // InputError: a stage of a role that is not there; a computation whose stage or micro-batch is not the schedule's,
  // that stands on another role's list, or twice.
  explicit ComputationGrid(const Schedule& schedule);

  [[nodiscard]] size_t micro_batches() const { return micro_batches_; }
  [[nodiscard]] size_t size() const { return stages_ * micro_batches_; }
  [[nodiscard]] size_t cell(const Action& action) const {
    return static_cast<size_t>(action.stage) * micro_batches_ + static_cast<size_t>(action.micro_batch);
  }
  // Whether any of the stage's backwards makes a gradient of what the stage read. False for leading frozen stages, and
  // for all of an evaluation.
  [[nodiscard]] bool has_backward(int32_t stage) const { return has_backward_[static_cast<size_t>(stage)] != 0; }
  // Whether the stage's backward reads a gradient of the stage behind it.
  [[nodiscard]] bool reads_gradient(int32_t stage) const {
    return static_cast<size_t>(stage) + 1 < stages_ && has_backward(stage);
  }

 private:
  size_t stages_ = 0, micro_batches_ = 0;
  std::vector<char> has_backward_;
};

}  // namespace weft::schedule
