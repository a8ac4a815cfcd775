// What stands between the two products of an MLP.
#pragma once

#include <ATen/core/Tensor.h>

#include "kernel/operator.h"

namespace weft::kernel {

// SwiGLU (arXiv 2002.05202): silu(gate) * up, where gate and up are the left and right half of the columns of `joined`
// [rows, 2 * ffn].
extern const Operator<at::Tensor(const at::Tensor&)> swiglu_forward;
// (dout [rows, ffn], joined): dout becomes the forward's output, joined becomes the gradients of gate and up.
extern const Operator<void(const at::Tensor&, const at::Tensor&)> swiglu_backward;

// GELU (arXiv 1606.08415): x Phi(x), or its approximation with tanh. (x contiguous, tanh)
extern const Operator<at::Tensor(const at::Tensor&, bool)> gelu_forward;
// (dout, x, tanh): dout becomes the forward's output, x becomes its gradient.
extern const Operator<void(const at::Tensor&, const at::Tensor&, bool)> gelu_backward;

}  // namespace weft::kernel
