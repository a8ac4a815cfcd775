// Tensors of whole numbers (sums are exact in any order) cut for ranks as a spec says, for tests.
#pragma once

#include <functional>
#include <vector>

#include <ATen/ATen.h>

#include "comm/groups.h"
#include "mesh/shard.h"
#include "tensor/collectives.h"

namespace weft::tensor {

inline constexpr mesh::Placement kR{mesh::PlacementKind::kReplicate};
inline constexpr mesh::Placement kI{mesh::PlacementKind::kInvariant};
inline constexpr mesh::Placement kP{mesh::PlacementKind::kPartial};
inline constexpr mesh::Placement shard(int8_t dim) { return {mesh::PlacementKind::kShard, dim}; }

// Whole numbers from -8 to 8 that depend on `seed` only.
inline at::Tensor whole_numbers(at::IntArrayRef shape, int64_t seed) {
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  const at::Tensor index = at::arange(count, at::kDouble) + static_cast<double>(seed * 1009);
  return at::round(8 * at::sin(index * 12.9898)).view(shape);
}

// The part of `whole` that a rank holds. Where axes are partial, the first rank holds what the others' numbers, made of
// `seed`, leave of it.
inline at::Tensor part_for(const at::Tensor& whole, const mesh::Spec& spec, int rank, int64_t seed) {
  const std::vector<int> place = mesh::coordinates_of(spec.mesh, rank);
  at::Tensor part = whole;
  if (mesh::ragged_axis(spec) >= 0) {
    const Range range = mesh::ragged_range(spec, place);
    part = whole.contiguous().view({-1}).narrow(0, range.begin, range.size());
  } else {
    for (int64_t dim = 0; dim < whole.dim(); ++dim) {
      const Range range = mesh::shard_range(spec, place, dim);
      part = part.narrow(dim, range.begin, range.size());
    }
  }
  part = part.contiguous();
  int64_t terms = 1, own = 0;
  for (size_t axis = 0; axis < place.size(); ++axis) {
    if (spec.placements[axis] != kP) continue;
    terms *= spec.mesh.axes[axis].size;
    own = own * spec.mesh.axes[axis].size + place[axis];
  }
  const auto term = [&](int64_t index) {
    return whole_numbers(part.sizes(), seed + 31 * index).to(part.scalar_type());
  };
  if (terms == 1) return part.clone();
  if (own > 0) return term(own);
  for (int64_t index = 1; index < terms; ++index) part = part - term(index);
  return part;
}

// The product of a tensor and a gradient of it, both as local parts: axes that hold it invariant count once, on the
// others every rank's product is a part of the sum.
inline double product(const at::Tensor& value, const at::Tensor& gradient, const mesh::Spec& spec,
                      const comm::Groups& groups) {
  at::Tensor sum = (value * gradient).sum().to(at::kDouble);
  for (size_t axis = 0; axis < spec.placements.size(); ++axis) {
    if (spec.placements[axis] == kI && groups.device_mesh().coordinates()[axis] > 0) sum = at::zeros_like(sum);
  }
  const mesh::AxisSet all = mesh::axis_bit(spec.mesh.axes.size()) - 1;
  all_reduce_(sum, groups.group(all), comm::Reduction::kSum, "product");
  return sum.item<double>();
}

}  // namespace weft::tensor
