#include "kernel/attention.h"

#include <limits>

#include <ATen/ATen.h>

#include "kernel/attention_blocks.h"
#include "kernel/rows.h"

namespace weft::kernel {
namespace {

std::string_view blocks_reason(const AttentionInputs& inputs) {
  for (const at::Tensor* tensor : {&inputs.query, &inputs.key, &inputs.value}) {
    if (!tensor->device().is_cpu()) return "it is not on the CPU";
    if (tensor->scalar_type() != at::kFloat && tensor->scalar_type() != at::kBFloat16) {
      return "it is neither float nor bfloat16";
    }
    if (tensor->stride(3) != 1 && tensor->size(3) != 1) return "its heads are not contiguous";
  }
  return has_blas() ? "" : "this build's LibTorch exports no products";
}

std::string_view forward_reason(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                const AttentionOptions&) {
  return blocks_reason({query, key, value});
}

std::string_view backward_reason(const at::Tensor&, const AttentionInputs& inputs, const AttentionResult&,
                                 const AttentionOptions&) {
  return blocks_reason(inputs);
}

// The key/value head that each of the query heads reads.
at::Tensor head_map(int64_t heads, int64_t kv_heads, const AttentionPlace& place, const at::Device& device) {
  const int64_t group = place.group > 0 ? place.group : heads / kv_heads;
  const at::Tensor head = at::arange(heads, at::TensorOptions(at::kLong).device(device)).add_(place.first_head);
  return head.div_(group, "floor").sub_(place.first_head / group);
}

// The reference works on [sequences, heads, rows, columns] in fp32.
at::Tensor by_heads(const at::Tensor& x, int64_t heads, const AttentionPlace& place) {
  at::Tensor wide = x.to(at::kFloat).transpose(1, 2);
  return wide.size(1) == heads ? wide : wide.index_select(1, head_map(heads, wide.size(1), place, x.device()));
}

// True where a query sees a key, [sequences or 1, 1, length, keys].
at::Tensor visible(int64_t length, int64_t keys, const AttentionOptions& options, const at::Device& device) {
  const at::Tensor key = at::arange(keys, at::TensorOptions(at::kLong).device(device));
  const at::Tensor query = at::arange(keys - length, keys, key.options()).unsqueeze(1);
  at::Tensor seen = key.le(query);
  if (options.window > 0) seen = seen.logical_and(key.gt(query - options.window));
  seen = seen.unsqueeze(0).unsqueeze(0);
  if (options.documents.defined()) {
    const at::Tensor queries = options.documents.narrow(1, keys - length, length);
    seen = seen.logical_and(options.documents.unsqueeze(1).eq(queries.unsqueeze(2)).unsqueeze(1));
  }
  return seen;
}

at::Tensor masked_scores(const at::Tensor& query, const at::Tensor& key, const AttentionOptions& options) {
  const at::Tensor scores = at::matmul(query, key.transpose(2, 3)) * options.scale;
  const at::Tensor seen = visible(query.size(2), key.size(2), options, query.device());
  return scores.masked_fill(seen.logical_not(), -std::numeric_limits<double>::infinity());
}

// Undefined where there is no dropout.
at::Tensor probability_factors(const at::Tensor& scores, const AttentionOptions& options) {
  if (!options.dropout.enabled()) return {};
  const int64_t heads = scores.size(1), length = scores.size(2), keys = scores.size(3);
  const int64_t whole = options.place.length > 0 ? options.place.length : keys;
  const int64_t all_heads = options.place.heads > 0 ? options.place.heads : heads;
  Dropout dropout = options.dropout;
  dropout.length = whole;
  dropout.positions = {{keys - length, keys}};
  const at::Tensor factors = dropout_factors(dropout, length, all_heads * whole);
  return factors.view({scores.size(0), length, all_heads, whole})
      .narrow(2, options.place.first_head, heads)
      .narrow(3, 0, keys)
      .transpose(1, 2)
      .to(scores.device());
}

AttentionResult forward_reference(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                  const AttentionOptions& options) {
  const int64_t heads = query.size(2);
  const AttentionPlace& place = options.place;
  const at::Tensor scores = masked_scores(by_heads(query, heads, place), by_heads(key, heads, place), options);
  AttentionResult result;
  result.logsumexp = scores.logsumexp({-1});
  at::Tensor probabilities = (scores - result.logsumexp.unsqueeze(-1)).exp();
  const at::Tensor factors = probability_factors(scores, options);
  if (factors.defined()) probabilities = probabilities * factors;
  result.output =
      at::matmul(probabilities, by_heads(value, heads, place)).transpose(1, 2).to(query.scalar_type()).contiguous();
  return result;
}

// Sums the gradients of the query heads that share a key/value head.
at::Tensor grouped(const at::Tensor& gradient, int64_t kv_heads, const AttentionPlace& place) {
  std::vector<int64_t> shape = gradient.sizes().vec();
  shape[1] = kv_heads;
  const at::Tensor map = head_map(gradient.size(1), kv_heads, place, gradient.device());
  return at::zeros(shape, gradient.options()).index_add_(1, map, gradient).transpose(1, 2);
}

AttentionInputs backward_reference(const at::Tensor& doutput, const AttentionInputs& inputs,
                                   const AttentionResult& result, const AttentionOptions& options) {
  const int64_t heads = inputs.query.size(2), kv_heads = inputs.key.size(2);
  const AttentionPlace& place = options.place;
  const at::Tensor query = by_heads(inputs.query, heads, place);
  const at::Tensor key = by_heads(inputs.key, heads, place);
  const at::Tensor value = by_heads(inputs.value, heads, place);
  const at::Tensor upper = by_heads(doutput, heads, place);
  const at::Tensor scores = masked_scores(query, key, options);
  const at::Tensor probabilities = (scores - result.logsumexp.unsqueeze(-1)).exp();
  const at::Tensor factors = probability_factors(scores, options);
  at::Tensor dprobabilities = at::matmul(upper, value.transpose(2, 3));
  if (factors.defined()) dprobabilities = dprobabilities * factors;
  const at::Tensor used = factors.defined() ? probabilities * factors : probabilities;
  const at::Tensor delta = (upper * by_heads(result.output, heads, place)).sum({-1}, true);
  const at::Tensor dscores = probabilities * (dprobabilities - delta) * options.scale;

  AttentionInputs gradients = empty_gradients(inputs);
  gradients.query.copy_(at::matmul(dscores, key).transpose(1, 2));
  gradients.key.copy_(grouped(at::matmul(dscores.transpose(2, 3), query), kv_heads, place));
  gradients.value.copy_(grouped(at::matmul(used.transpose(2, 3), upper), kv_heads, place));
  return gradients;
}

constexpr decltype(attention_forward)::Implementation kForward[] = {
    {"blocks", forward_reason, attention_forward_blocks}, {"reference", nullptr, forward_reference}};
constexpr decltype(attention_backward)::Implementation kBackward[] = {
    {"blocks", backward_reason, attention_backward_blocks}, {"reference", nullptr, backward_reference}};

}  // namespace

AttentionInputs joined_inputs(const at::Tensor& matrix, int64_t sequences, int64_t heads, int64_t kv_heads,
                              int64_t head_dim) {
  const at::Tensor by_head = matrix.view({sequences, -1, heads + 2 * kv_heads, head_dim});
  return {by_head.narrow(2, 0, heads), by_head.narrow(2, heads, kv_heads),
          by_head.narrow(2, heads + kv_heads, kv_heads)};
}

AttentionInputs empty_gradients(const AttentionInputs& inputs) {
  const int64_t length = inputs.query.size(1), heads = inputs.query.size(2), kv_heads = inputs.key.size(2);
  if (inputs.key.size(1) != length) {
    return {at::empty(inputs.query.sizes(), inputs.query.options()),
            at::empty(inputs.key.sizes(), inputs.key.options()),
            at::empty(inputs.value.sizes(), inputs.value.options())};
  }
  const int64_t sequences = inputs.query.size(0), head_dim = inputs.query.size(3);
  const at::Tensor matrix = at::empty({sequences * length, (heads + 2 * kv_heads) * head_dim}, inputs.query.options());
  return joined_inputs(matrix, sequences, heads, kv_heads, head_dim);
}

const decltype(attention_forward) attention_forward("attention_forward", kForward);
const decltype(attention_backward) attention_backward("attention_backward", kBackward);

}  // namespace weft::kernel
