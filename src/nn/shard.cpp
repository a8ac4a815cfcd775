#include "nn/shard.h"

namespace weft::nn {

std::vector<int64_t> context_units(int64_t context, int64_t rank) {
  std::vector<int64_t> units;
  const auto add = [&](int64_t piece) {
    const Range range = part(kUnits, 2 * context, piece);
    for (int64_t unit = range.begin; unit < range.end; ++unit) units.push_back(unit);
  };
  add(rank);
  add(2 * context - 1 - rank);
  return units;
}

std::vector<int64_t> sequence_units(const Shard& shard) {
  const std::vector<int64_t> held = context_units(shard.context, shard.context_rank);
  if (!shard.sequence) return held;
  const Range range = part(static_cast<int64_t>(held.size()), shard.tensor, shard.tensor_rank);
  return {held.begin() + range.begin, held.begin() + range.end};
}

}  // namespace weft::nn
