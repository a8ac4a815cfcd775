// How the generators make their lists; never leaves the room.
#pragma once

#include <cstdint>
#include <vector>

#include "schedule/generate.h"

namespace weft::schedule {

[[nodiscard]] inline Action computation(Op op, int32_t stage, int32_t micro_batch) {
  Action action;
  action.op = op;
  action.stage = stage;
  action.micro_batch = micro_batch;
  return action;
}

// Each fills the empty lists of `schedule`, whose stages and micro-batches are set, from options that were checked.
void fill_looped(Kind kind, const GenerateOptions& options, Schedule& schedule);
void fill_zero_bubble(Kind kind, const GenerateOptions& options, Schedule& schedule);
void fill_zero_bubble_auto(const GenerateOptions& options, Schedule& schedule);
void fill_zero_bubble_v(const GenerateOptions& options, Schedule& schedule);
void fill_dual_pipe_v(const GenerateOptions& options, Schedule& schedule);
void fill_v_pattern(Kind kind, const GenerateOptions& options, Schedule& schedule);

}  // namespace weft::schedule
