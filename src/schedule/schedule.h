// A schedule: for each pipeline role the list of its actions. Roles are not global ranks: the mesh replicates them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/description.h"
#include "schedule/action.h"

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

// Stage level, one role: each micro-batch forward, then backward; then the gradient's norm and the step. Sums run over ascending micro-batches.
[[nodiscard]] Schedule accumulate(const model::ModelDescription& model, int32_t micro_batches);

// Lowers a stage-level schedule: Forward and Backward of a stage become those of its segments.
[[nodiscard]] Schedule expand(const Schedule& schedule, const model::ModelDescription& model);

// What is wrong with it, or an empty string. Stage level: every (stage, micro-batch) has one Forward and afterwards one
// Backward, or BackwardInput and BackwardWeight; Step comes last. Lowered level: every value is written once before it is
// read, every gradient is whole before it is used.
[[nodiscard]] std::string validate(const Schedule& schedule, const model::ModelDescription& model);

}  // namespace weft::schedule
