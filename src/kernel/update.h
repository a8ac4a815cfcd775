// Updates of flat parameter buffers.
#pragma once

#include <ATen/core/Tensor.h>

#include "kernel/loops/loops.h"
#include "kernel/operator.h"

namespace weft::kernel {

// (step, parameter, gradient, average, square): AdamW (arXiv 1711.05101, algorithm 2) in the order of operations of
// torch.optim.AdamW; fp32, one-dimensional, contiguous. The gradient stays as it is.
extern const Operator<void(const AdamWStep&, const at::Tensor&, const at::Tensor&, const at::Tensor&,
                           const at::Tensor&)>
    adamw_update;

// The sum of squares of an fp32 buffer in fp64, in a fixed order.
extern const Operator<double(const at::Tensor&)> sum_of_squares;

}  // namespace weft::kernel
