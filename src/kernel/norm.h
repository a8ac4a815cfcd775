// RMSNorm (arXiv 1910.07467) and LayerNorm (arXiv 1607.06450) over the last dim, computed in fp32.
#pragma once

#include <ATen/core/Tensor.h>

#include "kernel/operator.h"

namespace weft::kernel {

struct NormResult {
  at::Tensor output;      // the shape and type of x, contiguous
  at::Tensor statistics;  // fp32, [rows] (RMSNorm: 1 / rms) or [rows, 2] (LayerNorm: mean, 1 / deviation); undefined
                          // unless asked for
};

// Where a backward puts the gradients of a norm's parameters: fp32 buffers of `width`, added to. Undefined: not wanted.
struct NormParameterGradients {
  at::Tensor weight, bias;
};

// Weights and biases are fp32; an undefined bias is none. (x, weight, epsilon, keep statistics)
extern const Operator<NormResult(const at::Tensor&, const at::Tensor&, double, bool)> rms_norm_forward;
// (x, weight, bias, epsilon, keep statistics)
extern const Operator<NormResult(const at::Tensor&, const at::Tensor&, const at::Tensor&, double, bool)>
    layer_norm_forward;

// (dy, x, weight, statistics, parameter gradients): turns dy into dx.
using NormBackward = Operator<void(const at::Tensor&, const at::Tensor&, const at::Tensor&, const at::Tensor&,
                                   const NormParameterGradients&)>;
extern const NormBackward rms_norm_backward;
extern const NormBackward layer_norm_backward;

}  // namespace weft::kernel
