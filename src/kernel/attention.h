// Causal attention of grouped query heads. Scores are recomputed in the backward, a block of queries at a time, so that
// memory grows with the length and not with its square (arXiv 2205.14135).
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "kernel/dropout.h"
#include "kernel/operator.h"

namespace weft::kernel {

// Which of a model's heads these are and how long its sequences, where tensors hold a part of them. 0: all that the
// tensors hold.
struct AttentionPlace {
  int64_t length = 0;      // of whole sequences
  int64_t heads = 0;       // query heads of the model
  int64_t first_head = 0;  // the tensors' first query head
  int64_t group = 0;  // query heads that share a key/value head; the first key/value head is the first query head's
};

// Query number t of a sequence stands at key number t + keys - length: with a cache of earlier keys there are more keys
// than queries. It sees keys up to its own place, at most `window` of them (0: all), none of another document.
struct AttentionOptions {
  double scale = 1;
  int64_t window = 0;
  // int64 [sequences, keys], rows contiguous; equal numbers stand next to each other. Undefined: one document
  at::Tensor documents;
  AttentionPlace place;
  Dropout dropout;  // of the probabilities, as a tensor [sequences, length, heads, length] of the whole model
};

struct AttentionResult {
  at::Tensor output;     // [sequences, length, heads, head_dim], contiguous
  at::Tensor logsumexp;  // fp32 [sequences, heads, length], of the scaled scores
};

// query [sequences, length, heads, head_dim]; key, value [sequences, keys, kv_heads, head_dim]; the last dim
// contiguous.
extern const Operator<AttentionResult(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                      const AttentionOptions&)>
    attention_forward;

struct AttentionInputs {
  at::Tensor query, key, value;
};

// (doutput, inputs, result, options): the gradients of query, key and value. They lie in one matrix
// [sequences * length, (heads + 2 * kv_heads) * head_dim] in this order, where the inputs have as many keys as queries.
extern const Operator<AttentionInputs(const at::Tensor&, const AttentionInputs&, const AttentionResult&,
                                      const AttentionOptions&)>
    attention_backward;

// Three views [sequences, length, heads of each, head_dim] on the columns of a matrix [sequences * length, ..], in the
// order query, key, value.
AttentionInputs joined_inputs(const at::Tensor& matrix, int64_t sequences, int64_t heads, int64_t kv_heads,
                              int64_t head_dim);

}  // namespace weft::kernel
