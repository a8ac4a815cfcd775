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

// The whole loss of rows of which this tensor holds all columns.
extern const Operator<CrossEntropy(const at::Tensor&, const at::Tensor&, const CrossEntropyOptions&)> cross_entropy;

// The loss of rows whose columns are divided: statistics of each part, their combination, then each part's gradient.

// (logits, targets): fp32 [rows, 3] of these columns: the greatest logit, the sum of exp(logit - greatest) and the
// target's logit. A target that is not a number of these columns counts 0; no columns give -infinity, 0, 0.
extern const Operator<at::Tensor(const at::Tensor&, const at::Tensor&)> logit_statistics;

// Of whole rows. Rows that are not predicted have loss 0, factor 0 and target gradient 0.
struct SoftmaxRows {
  at::Tensor losses;            // fp64, nats
  at::Tensor greatest;          // fp32: the greatest logit
  at::Tensor factors;           // fp32: the gradient of a logit is factor * exp(logit - greatest),
  at::Tensor target_gradients;  // fp32: but this that of the target's
};

// (statistics [parts, rows, 3], targets, scale): parts are added in order, in fp64. A target is in one part.
extern const Operator<SoftmaxRows(const at::Tensor&, const at::Tensor&, double)> combine_statistics;

// (logits, targets, rows, gradient type): the gradient over the logits, as CrossEntropy::gradient; targets as in
// logit_statistics.
extern const Operator<at::Tensor(const at::Tensor&, const at::Tensor&, const SoftmaxRows&, at::ScalarType)>
    softmax_gradient;

}  // namespace weft::kernel
