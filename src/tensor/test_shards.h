// Tensors of whole numbers (sums are exact in any order) cut for ranks as a spec says, for tests.
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "comm/groups.h"
#include "mesh/spec.h"

namespace weft::tensor {

inline constexpr mesh::Placement kR{mesh::PlacementKind::kReplicate};
inline constexpr mesh::Placement kI{mesh::PlacementKind::kInvariant};
inline constexpr mesh::Placement kP{mesh::PlacementKind::kPartial};
inline constexpr mesh::Placement shard(int8_t dim) { return {mesh::PlacementKind::kShard, dim}; }

// fp64 whole numbers from -8 to 8 that depend on `seed` only.
at::Tensor whole_numbers(at::IntArrayRef shape, int64_t seed);

// The part of `whole` that a rank holds. Where axes are partial, the first rank holds what the others' numbers, made of
// `seed`, leave of it.
at::Tensor part_for(const at::Tensor& whole, const mesh::Spec& spec, int rank, int64_t seed);

// The product of a tensor and a gradient of it, both as local parts: axes that hold it invariant count once, on the
// others every rank's product is a part of the sum.
double product(const at::Tensor& value, const at::Tensor& gradient, const mesh::Spec& spec, const comm::Groups& groups);

}  // namespace weft::tensor
