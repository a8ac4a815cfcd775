// The three products of a linear layer y = x W^T + b. Matrices are two-dimensional with contiguous rows (a row may lie
// inside a wider one). x, weight and dy have one type, float or bfloat16; sums are fp32.
#pragma once

#include <ATen/core/Tensor.h>

#include "kernel/operator.h"

namespace weft::kernel {

// (out, x, weight, bias): out [rows, features] = x [rows, width] weight [features, width]^T + bias; out is fp32 or of
// x's type, bias fp32 [features] or undefined.
extern const Operator<void(const at::Tensor&, const at::Tensor&, const at::Tensor&, const at::Tensor&)> product_forward;

// (dx, dy, weight, add): dx [rows, width] = dy [rows, features] weight, or dx += it. dx is fp32 or of dy's type
// (without add).
extern const Operator<void(const at::Tensor&, const at::Tensor&, const at::Tensor&, bool)> product_input_gradient;

// (dweight, dy, x, add): dweight [features, width], fp32, = dy^T x, or += it.
extern const Operator<void(const at::Tensor&, const at::Tensor&, const at::Tensor&, bool)> product_weight_gradient;

// (dbias, dy): dbias [features], fp32, += the sum of dy's rows.
extern const Operator<void(const at::Tensor&, const at::Tensor&)> bias_gradient;

// A new matrix x weight^T + bias of x's type, or of `type`.
at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias);
at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, at::ScalarType type);
// A new matrix dy weight, of dy's type.
at::Tensor linear_input_gradient(const at::Tensor& dy, const at::Tensor& weight);

}  // namespace weft::kernel
