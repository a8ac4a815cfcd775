// The CPU's attention: for each head, blocks of queries against all the keys they see, each block three (forward: two)
// ordinary matrix products on the tensors as they lie, with the softmax between.
#pragma once

#include "kernel/attention.h"
#include "kernel/blas.h"

namespace weft::kernel {

AttentionResult attention_forward_blocks(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                         const AttentionOptions& options);
AttentionInputs attention_backward_blocks(const at::Tensor& doutput, const AttentionInputs& inputs,
                                          const AttentionResult& result, const AttentionOptions& options);

// Uninitialised gradients, joined in one matrix where they fit into one (attention.h).
AttentionInputs empty_gradients(const AttentionInputs& inputs);

}  // namespace weft::kernel
