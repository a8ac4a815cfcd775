// When the computations of a stage-level schedule run, by the rules that the literature's numbers follow: a role runs
// its list in order; a computation begins when the role is free and what it reads is there, `message` later where
// another role made it; a link is never full; paired actions run as one and both end at its end; gathers and reductions
// take no time. Messages in the lists are passed over: their readers wait for the makers.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "schedule/generate.h"
#include "schedule/schedule.h"

namespace weft::schedule {

struct Durations {
  struct OfStage {
    double forward = 0, input = 0, weight = 0;
  };
  std::vector<OfStage> stages;
  double message = 0;
};

// Times are of a role's layers, stage_times relative (GenerateOptions); `chunks` stages a role.
[[nodiscard]] Durations durations(const Times& times, std::span<const double> stage_times, size_t stages,
                                  size_t chunks);

struct Timeline {
  std::vector<std::vector<double>> begins, ends;  // by role and index in its list; of other actions: the time reached
  double makespan = 0;                            // last end of all
  double span = 0;                                // longest time of a role from its first begin to its last end
};

// Nothing where the schedule hangs.
[[nodiscard]] std::optional<Timeline> timeline(const Schedule& schedule, const Durations& durations);

}  // namespace weft::schedule
