// Rotary position embedding (arXiv 2104.09864): pairs (i, i + head_dim / 2) of a head are turned by an angle that grows
// with the token's position.
#pragma once

#include <cstdint>
#include <span>

#include <ATen/core/Tensor.h>

#include "kernel/operator.h"

namespace weft::kernel {

// Cosines and sines of every position, fp32 [positions, head_dim / 2], computed in double.
struct RotationTable {
  at::Tensor cosine, sine;
  [[nodiscard]] int64_t positions() const { return cosine.defined() ? cosine.size(0) : 0; }
};

// Angle p * inverse[i]; both functions times `factor`.
RotationTable rotation_table(std::span<const double> inverse, double factor, int64_t positions,
                             const at::Device& device);

// (data, positions, table, back): turns data [sequences, length, heads, head_dim] in place; positions [sequences,
// length] are below table.positions(). `back` turns the other way, which is the gradient.
extern const Operator<void(const at::Tensor&, const at::Tensor&, const RotationTable&, bool)> rotate;

}  // namespace weft::kernel
