// The loss of a row of logits and its gradient, without a second matrix of their size.
#pragma once

#include <ATen/core/Tensor.h>

#include "kernel/operator.h"

namespace weft::kernel {

struct CrossEntropy {
  double loss_sum = 0;  // nats, over the rows whose target is not -1, added in row order
  at::Tensor gradient;  // [rows, vocabulary] of the asked type; undefined unless asked for. Shares the logits' storage
};

// logits fp32 [rows, vocabulary], rows contiguous; targets int64 [rows], -1: not predicted.
struct CrossEntropyOptions {
  bool gradient = false;                      // the logits are then overwritten
  double scale = 1;                           // what a row's loss counts in the gradient
  at::ScalarType gradient_type = at::kFloat;  // float or bfloat16
};

extern const Operator<CrossEntropy(const at::Tensor&, const at::Tensor&, const CrossEntropyOptions&)> cross_entropy;

}  // namespace weft::kernel
