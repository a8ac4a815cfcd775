// A schedule: for each pipeline role the list of its actions. Roles are not global ranks: the mesh replicates them.
//
// A role's list is the order in which its actions are begun. On one stream an action begins when the one before it has
// ended; across streams it also waits for what it reads. What it reads follows from what it is, so no list of
// dependencies is kept:
//   Forward(stage k, m)        Forward(k - 1, m), or the Receive of it where another role owns stage k - 1
//   Backward, BackwardInput    Forward(k, m), and those of k + 1, or the Receive of its gradient
//   BackwardWeight(k, m)       BackwardInput(k, m)
//   Recompute(k, m)            Forward(k, m); stands before the Backward or BackwardInput that needs it
//   Send(k, m, direction)      the Forward (gradient: Backward or BackwardInput) of the own stage k
//   Receive(k, m, direction)   the Send by the role of stage k - 1 (gradient: k + 1); k is the stage that reads
//   Unshard(k)                 makes the parameters of stage k whole until Reshard(k)
//   ReduceGradient(k)          adds stage k's gradients over the ranks that share them: all that was computed of them
//                              since the last one
// Messages run on the stream of their direction, Unshard and ReduceGradient on kData, everything else on kCompute.
// A message of the stage level is whole: a Send is begun when the list reaches it, a Receive is posted then and is
// waited for by its reader. Lowering makes start and wait of them.
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
};

// A part of the model, in order. Which segments it holds is known once a model is (assign_segments); a schedule that is
// only simulated or drawn has none.
struct Stage {
  int32_t first_segment = 0;
  int32_t segment_count = 0;
  int32_t role = 0;
  // False: all its parameters are frozen. It has no BackwardWeight, and no backward at all where no stage before it
  // trains.
  bool trains = true;
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
