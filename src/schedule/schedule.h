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

// Stage level, one role, one stage: each micro-batch forward, then backward. Sums run over ascending micro-batches.
[[nodiscard]] Schedule accumulate(const model::ModelDescription& model, int32_t micro_batches);

// Stage level, one role, one stage: each micro-batch forward. Nothing is kept for a backward.
[[nodiscard]] Schedule evaluate(const model::ModelDescription& model, int32_t micro_batches);

// Lowers a stage-level schedule: Forward and Backward of a stage become those of its segments, and every value is freed
// after the last forward or message that reads it. What a backward needs of it is kept by its segment. Between them
// stands the traffic:
//   a value is redistributed right behind its forward, its gradient right before its backward;
//   a message becomes one a value that crosses the stage's border: Send and Receive are started where the list has
//   them; a Receive is waited for in front of the stage that reads, a Send where it has arrived for sure;
//   a bucket's gradient is reduced behind the last backward that adds to it (with zero >= 2: of each micro-batch); with
//   zero = 3 a bucket is unsharded in front of its next use and at most Layout::whole_buckets are whole; with zero 1
//   and 2 all are unsharded behind the step.
// Every role ends with the loss; where anything trains also with the gradients of borrowed buckets (roles.h), the norm,
// the step, and the new values of borrowed buckets.
[[nodiscard]] Schedule expand(const Schedule& schedule, const model::ModelDescription& model,
                              const Layout& layout = {});

// What is wrong with a lowered schedule, or an empty string. (Of the stage level: validate_stages.h.)
// Stages hold consecutive segments and all of them; each (segment, micro-batch) has one Forward, and where the schedule
// trains afterwards one Backward, or BackwardInput and then BackwardWeight; a segment's weight gradients are added in
// ascending micro-batches; a value is read after it was written or has arrived and before it is freed, and freed once;
// a segment's backward runs after those of all that read its outputs, so that every gradient is whole before it is
// used; and gradients of one value are added in the order of its readers, the last first. The loss is reduced once,
// after the last Forward; the norm once, after the last weight gradient; Step once. Traffic: exactly what the layout
// and the stages ask for, where expand() may put it: nothing is read before it was redistributed, no gradient is
// reduced before it is complete, no bucket is used while it is not whole; messages between two roles start in one order
// at both ends, each is waited for, and no role waits for ever.
[[nodiscard]] std::string validate(const Schedule& schedule, const model::ModelDescription& model,
                                   const Layout& layout = {});

}  // namespace weft::schedule
