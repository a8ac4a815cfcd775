// Which elements of a tensor a rank holds. Several axes that cut one dim cut it one after the other, outermost first:
// each divides the whole units that the axes before it left over (base/units.h). Shards may be uneven and empty.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/units.h"
#include "mesh/spec.h"

namespace weft::mesh {

// Coordinates: one an axis of spec.mesh (device_mesh.h).

// The elements of `dim` that the rank holds.
[[nodiscard]] Range shard_range(const Spec& spec, std::span<const int> coordinates, int64_t dim);
// Of every dim. Not for a spec with a ragged axis.
[[nodiscard]] std::vector<Range> shard_ranges(const Spec& spec, std::span<const int> coordinates);
// The row-major range of elements, of a spec with a ragged axis.
[[nodiscard]] Range ragged_range(const Spec& spec, std::span<const int> coordinates);
// The axis that is ragged, or -1.
[[nodiscard]] int ragged_axis(const Spec& spec);

// The shape of the rank's local tensor; of a ragged one [elements].
[[nodiscard]] std::vector<int64_t> local_shape(const Spec& spec, std::span<const int> coordinates);
// The row-major index in the global tensor of the local tensor's element with row-major index `local`.
[[nodiscard]] int64_t global_index(const Spec& spec, std::span<const int> coordinates, int64_t local);
[[nodiscard]] int64_t element_count(std::span<const int64_t> shape);

// Elements that lie behind each other in the local tensor and in the global one.
struct Run {
  int64_t local = 0;   // row-major index of the first
  int64_t global = 0;  // of the same
  int64_t size = 0;
  friend bool operator==(const Run&, const Run&) = default;
};
// The local tensor as its longest runs, in order.
[[nodiscard]] std::vector<Run> runs_of(const Spec& spec, std::span<const int> coordinates);

// The spec of a tensor's gradient: the same with gradient_placement() on every axis.
[[nodiscard]] const Spec* gradient_spec(const Spec& spec);

}  // namespace weft::mesh
