// Where a dim may be cut. A dim consists of units that no layout cuts, and ranks hold whole units, so that sums over
// units do not depend on the number of ranks (docs/architecture.md, 4).
#pragma once

#include <cstdint>

namespace weft {

// Feature dims without units of their own (ffn, vocabulary) and the sequence are divided into this many.
inline constexpr int64_t kUnits = 8;

struct Range {
  int64_t begin = 0;
  int64_t end = 0;
  [[nodiscard]] int64_t size() const { return end - begin; }
  friend bool operator==(const Range&, const Range&) = default;
};

// Part `index` of `size` things divided into `parts` near-equal consecutive parts: the first size mod parts hold one
// more. Parts may be empty.
[[nodiscard]] constexpr Range part(int64_t size, int64_t parts, int64_t index) {
  const int64_t least = size / parts;
  const int64_t more = size % parts;
  const int64_t begin = index * least + (index < more ? index : more);
  return {begin, begin + least + (index < more ? 1 : 0)};
}

// What rank `index` of `ranks` holds of a dim of `size` elements in `units` near-equal units: whole units, divided as
// part() divides.
[[nodiscard]] constexpr Range cut(int64_t size, int64_t units, int64_t ranks, int64_t index) {
  const Range held = part(units, ranks, index);
  return {part(size, units, held.begin).begin,
          held.end == held.begin ? part(size, units, held.begin).begin : part(size, units, held.end - 1).end};
}

}  // namespace weft
