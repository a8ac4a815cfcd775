// What the actions of a stage-level schedule take, in any one unit of time, and what they hold.
#pragma once

#include <span>
#include <vector>

#include "schedule/generate.h"
#include "schedule/schedule.h"

namespace weft::simulate {

// Of one stage, and of one micro-batch where it computes.
struct StageCosts {
  double forward = 0, input = 0, weight = 0;  // a Recompute takes as long as a forward
  double gather = 0;                          // of its parameters
  double reduce = 0;                          // of its gradients
  double activation = 0;                      // what a micro-batch holds, in activations of one role's layers
};

struct Costs {
  std::vector<StageCosts> stages;
  // From the begin of a Send until its Receive can end. A latency: it occupies neither role and no link.
  double message = 0;
  // Of an activation, what is held from the end of BackwardInput to the end of BackwardWeight.
  double weight_share = 0.4;
  // Of an activation, what a stage that is recomputed holds from Forward to Recompute.
  double input_share = 0;
};

// Times of a role's layers divided over its stages: equally, or as `stage_times` say, whose mean counts as 1 and
// which may be empty. Stages / roles is the number of chunks. Gathers and reductions take no time.
[[nodiscard]] Costs costs_of(const schedule::Schedule& schedule, const schedule::Times& times,
                             std::span<const double> stage_times = {});

}  // namespace weft::simulate
