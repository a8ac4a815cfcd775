// A schedule: for each pipeline role the list of its actions. Roles are not global ranks: the mesh replicates them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/description.h"
#include "schedule/action.h"
#include "schedule/layout.h"

namespace weft::schedule {

struct RoleSchedule {
  std::vector<Action> actions;
  std::vector<uint32_t> dependencies;  // indices of actions of the same role
};

// Which segments a stage holds (a range of the model's segments) and which role owns it.
struct Stage {
  int32_t first_segment = 0;
  int32_t segment_count = 0;
  int32_t role = 0;
};

struct Schedule {
  std::vector<Stage> stages;
  std::vector<RoleSchedule> roles;
  int32_t micro_batches = 0;
};

// Stage level, one role, one stage: each micro-batch forward, then backward; then the loss, the gradient's norm and the
// step. Sums run over ascending micro-batches.
[[nodiscard]] Schedule accumulate(const model::ModelDescription& model, int32_t micro_batches);

// Stage level, one role, one stage: each micro-batch forward, then the loss. Nothing is kept for a backward.
[[nodiscard]] Schedule evaluate(const model::ModelDescription& model, int32_t micro_batches);

// The same schedule with every Backward as BackwardInput and, right behind it, BackwardWeight.
[[nodiscard]] Schedule split_backward(const Schedule& schedule);

// Lowers a stage-level schedule: Forward and Backward of a stage become those of its segments, and every value is freed
// after the last forward that reads it. What a backward needs of it is kept by its segment. Between them stands the
// traffic of the layout: a value is redistributed right behind its forward, its gradient right before its backward;
// a bucket's gradient is reduced behind the last backward that adds to it (with zero >= 2: of each micro-batch); with
// zero = 3 a bucket is unsharded in front of its next use and at most Layout::whole_buckets are whole; with zero 1 and
// 2 all are unsharded behind the step.
[[nodiscard]] Schedule expand(const Schedule& schedule, const model::ModelDescription& model,
                              const Layout& layout = {});

// What is wrong with it, or an empty string.
// Both levels: stages hold consecutive segments and all of them; each (stage, micro-batch) has one Forward, and where
// the schedule trains afterwards one Backward, or BackwardInput and then BackwardWeight; a stage's weight gradients are
// added in ascending micro-batches; the loss is reduced once, after the last Forward; the norm once, after the last
// weight gradient; Step once, last. Stage level: a stage's Forward comes after that of the stage before, its Backward
// after that of the stage behind, where one role has both. Lowered level: a value is read after it was written and
// before it is freed, and freed once; a segment's backward runs after those of all that read its outputs, so that every
// gradient is whole before it is used; and gradients of one value are added in the order of its readers, the last
// first. Traffic: exactly what the layout asks for, where expand() may put it: nothing is read before it was
// redistributed, no gradient is reduced before it is complete, no bucket is used while it is not whole.
[[nodiscard]] std::string validate(const Schedule& schedule, const model::ModelDescription& model,
                                   const Layout& layout = {});

}  // namespace weft::schedule
