// Dropout whose mask is a function of the step, the operator's path and the element's place in the global batch: it is
// computed again in the backward instead of kept, and does not depend on micro-batches or layout
// (docs/random-numbers.md).
#pragma once

#include <ATen/core/Tensor.h>

#include "base/philox.h"
#include "kernel/loops/loops.h"
#include "kernel/operator.h"

namespace weft::kernel {

struct Dropout {
  double probability = 0;  // in [0, 1); 0: none
  RandomKey key;
  at::Tensor sample_ids;  // int64 [sequences]

  [[nodiscard]] bool enabled() const { return probability > 0; }
  [[nodiscard]] DropoutMask mask() const;
};

// (x, dropout): zeroes elements of x [sequences, length, ...], contiguous, in place and scales the others by
// 1 / (1 - probability). Its gradient is the same function of the upper gradient.
extern const Operator<void(const at::Tensor&, const Dropout&)> apply_dropout;

// The factors (0 or 1 / (1 - probability)) of a tensor [sequences, length, rest], fp32 on the CPU.
at::Tensor dropout_factors(const Dropout& dropout, int64_t length, int64_t rest);

}  // namespace weft::kernel
