// x + factor * branch.
#pragma once

#include <ATen/core/Tensor.h>

#include "kernel/operator.h"

namespace weft::kernel {

// (x, branch, factor): a new tensor; both inputs contiguous, of one shape and type.
extern const Operator<at::Tensor(const at::Tensor&, const at::Tensor&, double)> add_scaled;

// (x, factor): in place, x contiguous.
extern const Operator<void(const at::Tensor&, double)> scale_in_place;

}  // namespace weft::kernel
