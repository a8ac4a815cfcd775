// Makes the schedules that are known by name. Stage level, computations only: passes.h adds messages, and gathers and
// reductions of sharded parameters. docs/schedules.md has the idea, the formula and the source of each.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "schedule/schedule.h"

namespace weft::schedule {

enum class Kind : uint8_t {
  kGpipe,
  k1f1b,
  kInterleaved,
  kBreadthFirst,
  kZeroBubbleH1,
  kZeroBubbleH2,
  kZeroBubbleAuto,
  kZeroBubbleV,
  kVHalf,
  kVMin,
  kDualPipeV,
};

// "gpipe", "1f1b", "interleaved", "bfs", "zb-h1", "zb-h2", "zb-auto", "zbv", "v-half", "v-min", "dualpipe-v".
[[nodiscard]] std::string_view name(Kind kind);
[[nodiscard]] std::optional<Kind> kind_of(std::string_view name);
[[nodiscard]] std::span<const Kind> all_kinds();

// Of one micro-batch through all the layers of one role, in any unit of time: forward, backward for the input, backward
// for the weights; and of one message between roles.
struct Times {
  double forward = 1;
  double input = 1;
  double weight = 1;
  double message = 0;
};

struct GenerateOptions {
  int32_t roles = 1;
  int32_t chunks = 0;  // stages a role; 0: 2 of the kinds that have two, otherwise 1
  int32_t micro_batches = 1;
  // Interleaved: micro-batches that run through a chunk in a row, at least as many as roles (or all); 0: as many as
  // roles. What is left over runs last, or is spread over the others where it is less than one a role.
  int32_t run = 0;
  int32_t rounds = 1;  // breadth-first: parts that the micro-batches are divided into, one after the other
  Times times;         // what zb-auto looks at; others make the same list for all times
  // Relative time of each stage; empty: all equal. Their mean counts as 1.
  std::vector<double> stage_times;
  double memory = 0;          // zb-auto: activations of one micro-batch through one role's layers, 0: as many as roles
  double weight_share = 0.4;  // of an activation: what is held from BackwardInput to BackwardWeight
  std::vector<bool> frozen;   // by stage; empty: none
};

// InputError names an option that the kind cannot take: chunks that it does not have, no role, no micro-batch, a memory
// that not even one micro-batch fits in. Frozen stages are pruned (passes.h). Weight gradients of a stage are added in
// ascending micro-batches.
[[nodiscard]] Schedule generate(Kind kind, const GenerateOptions& options);

// The role of each stage: r, r + P, ... of role r; zbv, v-half, v-min and dualpipe-v: r and 2P - 1 - r. `chunks` as in
// GenerateOptions, and the same InputError.
[[nodiscard]] std::vector<Stage> stage_map(Kind kind, int32_t roles, int32_t chunks);

}  // namespace weft::schedule
