// From one placement to another, and back for gradients: plain functions on local tensors, which the executor calls as
// actions and which sharded tensors record in the graph (dtensor.h). docs/sharded-tensors.md.
#pragma once

#include <string_view>

#include <ATen/core/Tensor.h>

#include "comm/groups.h"
#include "mesh/redistribution.h"

namespace weft::tensor {

// `local` is this rank's part of a tensor of spec `from`: of mesh::local_shape(from) and its element type, on the CPU.
// Returns its part of the same tensor in spec `to`, contiguous; it may be `local` itself where nothing changes.
// Every member of the groups calls it alike. Throws Error for a part of another shape or type, for specs that do not
// fit each other or the groups' mesh, and what the communicator throws.
//   any axis: Shard, Ragged, Replicate, Invariant and Partial to any of them (mesh/redistribution.h has the steps)
[[nodiscard]] at::Tensor redistribute(const at::Tensor& local, const mesh::Spec& from, const mesh::Spec& to,
                                      const comm::Groups& groups, std::string_view what);

// The conjugate: from a gradient of what redistribute() returned to the gradient of what it got. It is the
// redistribution from the gradient spec of `to` to the one of `from`.
[[nodiscard]] at::Tensor redistribute_gradient(const at::Tensor& gradient, const mesh::Spec& from, const mesh::Spec& to,
                                               const comm::Groups& groups, std::string_view what);

// One step of a plan, without checks.
[[nodiscard]] at::Tensor redistribute_step(const at::Tensor& local, const mesh::RedistributionStep& step,
                                           const comm::Groups& groups, std::string_view what);

}  // namespace weft::tensor
