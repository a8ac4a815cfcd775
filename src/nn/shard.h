// What one rank computes of a model and of a micro-batch under tensor, sequence and context parallelism.
#pragma once

#include <cstdint>
#include <vector>

#include "base/units.h"

namespace weft::nn {

// Degrees and coordinates. All 1 and 0: everything.
struct Shard {
  int64_t tensor = 1;
  int64_t tensor_rank = 0;
  int64_t context = 1;
  int64_t context_rank = 0;
  bool sequence = false;  // norms and residuals hold a part of the sequence a tensor rank
  bool strict = false;    // sums over what a layout could cut are sums of leaves (docs/architecture.md, 4)
  friend bool operator==(const Shard&, const Shard&) = default;
};

// The units (of kUnits near-equal ones, as part() divides the sequence) that a context rank holds, in the order in
// which its tokens lie: pieces r and 2 context - 1 - r of 2 context near-equal pieces, so that under a causal mask all
// ranks have about the same work.
[[nodiscard]] std::vector<int64_t> context_units(int64_t context, int64_t rank);

// Those of them that a tensor rank holds where the residual stream is cut along the sequence: consecutive ones of
// context_units, divided as part() divides.
[[nodiscard]] std::vector<int64_t> sequence_units(const Shard& shard);

}  // namespace weft::nn
