// Sharded tensors of numbers that depend on the element's place in the whole tensor only: what a rank holds is the part
// of what one device would hold, bit by bit, for every placement (docs/random-numbers.md). No state, no communication.
#pragma once

#include "base/philox.h"
#include "tensor/dtensor.h"

namespace weft::tensor {

// All: fp32, bf16 or fp64 (Error for others); numbers are made in fp32 and converted. Of a partial tensor the first
// rank of the axis holds the numbers, the others zeros.

// Element g is number g of the key's stream: uniform in [0, 1), or normal of mean 0.
[[nodiscard]] DTensor uniform(const mesh::Spec* spec, RandomKey key, const mesh::DeviceMesh& device_mesh);
[[nodiscard]] DTensor normal(const mesh::Spec* spec, RandomKey key, double standard_deviation,
                             const mesh::DeviceMesh& device_mesh);
// Zeroes each element of x with this probability, in [0, 1), and scales the others by 1 / (1 - probability). Linear;
// any placement but ragged.
[[nodiscard]] DTensor dropout(const DTensor& x, double probability, RandomKey key, const mesh::DeviceMesh& device_mesh);

// Every element is `number`. Any element type.
[[nodiscard]] DTensor full(const mesh::Spec* spec, double number, const mesh::DeviceMesh& device_mesh);
// Element g is g. Any element type.
[[nodiscard]] DTensor arange(const mesh::Spec* spec, const mesh::DeviceMesh& device_mesh);

}  // namespace weft::tensor
