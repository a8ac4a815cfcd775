// From a run's tree to the layout of its ranks.
#pragma once

#include <cstdint>

#include "base/units.h"
#include "run/run_node.h"
#include "schedule/layout.h"

namespace weft::run {

// The layout that [parallel] asks for. InputError names the keys that contradict each other, or the model's part that a
// degree cannot cut: more tensor ranks than query heads or than units of a feature dim, more context ranks than units
// of the sequence.
[[nodiscard]] schedule::Layout layout_of(const RunNode& run);

// InputError unless the degrees of [parallel] multiply to the ranks that there are.
void check_ranks(const schedule::Layout& layout, int64_t ranks);

// How a global batch is cut: over the ranks that divide it (data * fsdp), and each rank's part into micro-batches.
// Where it does not divide, the first hold one sequence more; parts may be empty.
struct BatchCut {
  int64_t global_batch = 1;
  int64_t ranks = 1;
  int64_t micro_batches = 1;
  // Sequences of a micro-batch of a rank, counted from the global batch's first.
  [[nodiscard]] Range sequences(int64_t rank, int64_t micro_batch) const;
  // The most sequences in a micro-batch.
  [[nodiscard]] int64_t largest() const { return sequences(0, 0).size(); }
};
// Of a phase with this global batch. InputError where micro_batch and micro_batches contradict each other.
[[nodiscard]] BatchCut batch_cut(const RunNode& run, int64_t global_batch);

}  // namespace weft::run
