#include "mesh/shard.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "base/check.h"

namespace weft::mesh {

int64_t element_count(std::span<const int64_t> shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

Range shard_range(const Spec& spec, std::span<const int> coordinates, int64_t dim) {
  const int64_t size = spec.shape[static_cast<size_t>(dim)];
  const int64_t named = spec.units.empty() ? 0 : spec.units[static_cast<size_t>(dim)];
  const int64_t units = named == 0 ? size : named;
  Range held{0, units};
  for (const int8_t axis : spec.shard_order) {
    if (spec.placements[static_cast<size_t>(axis)].dim != dim) continue;
    const Range own =
        part(held.size(), spec.mesh.axes[static_cast<size_t>(axis)].size, coordinates[static_cast<size_t>(axis)]);
    held = {held.begin + own.begin, held.begin + own.end};
  }
  const auto begin_of = [&](int64_t unit) { return unit == units ? size : part(size, units, unit).begin; };
  return {begin_of(held.begin), begin_of(held.end)};
}

std::vector<Range> shard_ranges(const Spec& spec, std::span<const int> coordinates) {
  WEFT_CHECK(ragged_axis(spec) < 0);
  std::vector<Range> ranges;
  for (size_t dim = 0; dim < spec.shape.size(); ++dim) {
    ranges.push_back(shard_range(spec, coordinates, static_cast<int64_t>(dim)));
  }
  return ranges;
}

int ragged_axis(const Spec& spec) {
  const auto found =
      std::ranges::find_if(spec.placements, [](Placement p) { return p.kind == PlacementKind::kRagged; });
  return found == spec.placements.end() ? -1 : static_cast<int>(found - spec.placements.begin());
}

Range ragged_range(const Spec& spec, std::span<const int> coordinates) {
  const int axis = ragged_axis(spec);
  WEFT_CHECK(axis >= 0);
  const auto place = static_cast<size_t>(coordinates[static_cast<size_t>(axis)]);
  return {place == 0 ? 0 : spec.ragged_ends[place - 1], spec.ragged_ends[place]};
}

std::vector<int64_t> local_shape(const Spec& spec, std::span<const int> coordinates) {
  if (ragged_axis(spec) >= 0) return {ragged_range(spec, coordinates).size()};
  std::vector<int64_t> shape;
  for (const Range& range : shard_ranges(spec, coordinates)) shape.push_back(range.size());
  return shape;
}

int64_t global_index(const Spec& spec, std::span<const int> coordinates, int64_t local) {
  if (ragged_axis(spec) >= 0) return ragged_range(spec, coordinates).begin + local;
  const std::vector<Range> ranges = shard_ranges(spec, coordinates);
  int64_t index = 0, stride = 1;
  for (size_t dim = ranges.size(); dim-- > 0;) {
    index += (ranges[dim].begin + local % ranges[dim].size()) * stride;
    local /= ranges[dim].size();
    stride *= spec.shape[dim];
  }
  return index;
}

std::vector<Run> runs_of(const Spec& spec, std::span<const int> coordinates) {
  const std::vector<int64_t> shape = local_shape(spec, coordinates);
  const int64_t count = element_count(shape);
  if (count == 0) return {};
  if (ragged_axis(spec) >= 0) return {{0, ragged_range(spec, coordinates).begin, count}};
  // A run holds whole dims from the last on, and the range of the first dim that is cut.
  int64_t length = 1;
  for (size_t dim = shape.size(); dim-- > 0;) {
    length *= shape[dim];
    if (shape[dim] != spec.shape[dim]) break;
  }
  std::vector<Run> runs;
  for (int64_t local = 0; local < count; local += length) {
    runs.push_back({local, global_index(spec, coordinates, local), length});
  }
  return runs;
}

const Spec* gradient_spec(const Spec& spec) {
  Spec gradient = spec;
  for (Placement& placement : gradient.placements) placement = gradient_placement(placement);
  return intern(std::move(gradient));
}

}  // namespace weft::mesh
