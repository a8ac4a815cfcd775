// A sharded tensor: what this rank holds of it, and how the whole lies on the mesh. A value; operators are free
// functions (operators.h). Autograd is LibTorch's, on the local tensors: a local operator needs nothing, and each
// change of placement is a node with its conjugate. The placement of a gradient follows from the tensor's: Shard ->
// Shard, Replicate -> Partial, Partial -> Replicate, Invariant -> Invariant. docs/sharded-tensors.md.
#pragma once

#include <string_view>
#include <vector>

#include <ATen/core/Tensor.h>

#include "comm/groups.h"
#include "mesh/spec.h"

namespace weft::tensor {

struct DTensor {
  at::Tensor local;
  const mesh::Spec* spec = nullptr;
};

// The spec of a whole tensor that lies like this, with the tensor's shape and element type. `units` as in mesh::Spec.
[[nodiscard]] const mesh::Spec* spec_of(const at::Tensor& whole, const mesh::Mesh& mesh,
                                        std::vector<mesh::Placement> placements, std::vector<int64_t> units = {});

// This rank's part of a tensor that every rank has. Nothing moves; of a partial one the first rank has all. Detached.
[[nodiscard]] DTensor distribute(const at::Tensor& whole, const mesh::Spec* spec, const mesh::DeviceMesh& device_mesh);

// The tensor in another spec. Differentiable. `groups` must outlive the backward. redistribute.h has the errors.
[[nodiscard]] DTensor redistribute(const DTensor& tensor, const mesh::Spec* to, const comm::Groups& groups,
                                   std::string_view what = "redistribution");
// With these placements, the units of dims that stay cut, and axes in the mesh's order.
[[nodiscard]] DTensor redistribute(const DTensor& tensor, std::vector<mesh::Placement> placements,
                                   const comm::Groups& groups, std::string_view what = "redistribution");
// With another placement on one axis.
[[nodiscard]] DTensor redistribute(const DTensor& tensor, std::string_view axis, mesh::Placement placement,
                                   const comm::Groups& groups, std::string_view what = "redistribution");

// The whole tensor, on every rank. Not differentiable.
[[nodiscard]] at::Tensor gather(const DTensor& tensor, const comm::Groups& groups);

// Goes back from a loss, one number, that is invariant on every axis; elsewhere throws Error. Gradients are added to
// the leaves' local.grad().
void backward(const DTensor& loss);
// The gradient of a leaf, in the gradient spec of its own. Throws Error where it has none.
[[nodiscard]] DTensor gradient_of(const DTensor& leaf);

}  // namespace weft::tensor
