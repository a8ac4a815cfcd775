// Messages at the lowered level; part of expand() (schedule.h).
#pragma once

#include <span>
#include <vector>

#include "model/description.h"
#include "schedule/schedule.h"

namespace weft::schedule {

// What crosses from one stage to the next becomes a message a value, in start and wait.
class MessageLowering {
 public:
  // Both must outlive it.
  MessageLowering(const model::ModelDescription& model, std::span<const Stage> stages);

  // The values that are made in front of a stage and read in it or behind it, ascending.
  [[nodiscard]] std::span<const int> crossing(int32_t stage) const { return crossing_[static_cast<size_t>(stage)]; }

  // The starts of a stage-level Send or Receive.
  void begin(const Action& action, std::vector<Action>& lowered) const;
  // The waits for what a Forward, Backward or BackwardInput reads from another role.
  void wait_for_inputs(const Action& action, std::vector<Action>& lowered) const;

 private:
  std::span<const Stage> stages_;
  std::vector<std::vector<int>> crossing_;  // by stage: over the border in front of it
};

// Every Send of a lowered schedule is waited for where it has arrived for sure: behind the first message from its
// receiver that was begun after the receiver had waited for it; else at the end of the computations.
void add_send_waits(Schedule& lowered);

}  // namespace weft::schedule
