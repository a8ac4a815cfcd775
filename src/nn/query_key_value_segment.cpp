#include <algorithm>
#include <optional>
#include <vector>

#include <ATen/ATen.h>

#include "base/check.h"
#include "kernel/attention.h"
#include "kernel/rope.h"
#include "nn/linear.h"
#include "nn/norm_of.h"
#include "nn/segment_kinds.h"

namespace weft::nn {
namespace {

using kernel::AttentionInputs;

// The matrix whose columns are these three, without a copy where attention's backward made them as its views and nobody
// else holds it.
at::Tensor joined_matrix(Tensors parts) {
  const at::Tensor &query = parts[0], &key = parts[1], &value = parts[2];
  const int64_t head_dim = query.size(3);
  const int64_t columns = (query.size(2) + key.size(2) + value.size(2)) * head_dim;
  const int64_t rows = query.size(0) * query.size(1);
  bool joined = query.storage().is_alias_of(key.storage()) && query.storage().is_alias_of(value.storage()) &&
                query.storage().use_count() == 3;
  for (const at::Tensor& part : parts) {
    joined = joined && part.use_count() == 1 && part.stride(3) == 1 && part.stride(2) == head_dim &&
             part.stride(1) == columns && part.stride(0) == columns * part.size(1);
  }
  joined = joined && key.storage_offset() == query.storage_offset() + query.size(2) * head_dim &&
           value.storage_offset() == key.storage_offset() + key.size(2) * head_dim;
  if (joined) return query.as_strided({rows, columns}, {columns, 1}, query.storage_offset());
  return at::cat({query, key, value}, 2).view({rows, columns});
}

// normed -> query, key, value: one product, a norm of each head where asked for, then the rotation.
class QueryKeyValueSegment : public Segment {
 public:
  explicit QueryKeyValueSegment(const model::SegmentDescription& description)
      : node_(node_of<model::GroupedQueryAttention>(description)), product_(product(node_, description)) {
    size_t next = node_.bias ? 6 : 3;
    if (node_.query_key_norm) {
      for (std::optional<Norm>* norm : {&query_norm_, &key_norm_}) {
        const size_t count = Norm::parameter_count(*node_.query_key_norm);
        WEFT_CHECK(next + count <= description.parameters.size());
        const auto first = description.parameters.begin() + static_cast<std::ptrdiff_t>(next);
        norm->emplace(*node_.query_key_norm, std::vector<int>(first, first + static_cast<std::ptrdiff_t>(count)));
        next += count;
      }
    }
    WEFT_CHECK(next == description.parameters.size());
    if (node_.rope) frequencies_ = node_.rope->frequencies(node_.head_dim);
  }

  Tensors forward(RunContext& context, const Tensors& inputs, Saved& saved) override {
    const at::Tensor x = as_rows(inputs[0]);
    AttentionInputs parts = split(product_.forward(*context.parameters, x), inputs[0].size(0));
    if (context.training) saved.tensors = {x};
    if (query_norm_) {
      const kernel::NormResult query = query_norm_->forward(context, parts.query);
      const kernel::NormResult key = key_norm_->forward(context, parts.key);
      if (context.training) {
        saved.tensors.insert(saved.tensors.end(), {parts.query, query.statistics, parts.key, key.statistics});
      }
      parts.query = query.output;
      parts.key = key.output;
    }
    rotate(*context.batch, parts, false);
    return {parts.query, parts.key, parts.value};
  }

  Tensors backward(RunContext& context, Saved& saved, Tensors output_gradients) override {
    const int64_t sequences = output_gradients[0].size(0);
    const int64_t length = output_gradients[0].size(1);
    const at::Tensor matrix = joined_matrix(std::move(output_gradients));
    const AttentionInputs parts = split(matrix, sequences);
    rotate(*context.batch, parts, true);
    if (query_norm_) {
      query_norm_->backward(context, parts.query, saved.tensors[1], saved.tensors[2]);
      key_norm_->backward(context, parts.key, saved.tensors[3], saved.tensors[4]);
    }
    product_.weight_gradients(context, matrix, saved.tensors[0]);
    return {product_.input_gradient(*context.parameters, matrix).view({sequences, length, -1})};
  }

 private:
  static Linear product(const model::GroupedQueryAttention& node, const model::SegmentDescription& description) {
    const std::vector<int>& all = description.parameters;
    WEFT_CHECK(all.size() >= (node.bias ? 6U : 3U));
    std::vector<int> biases;
    if (node.bias) biases.assign(all.begin() + 3, all.begin() + 6);
    return {std::vector<int>(all.begin(), all.begin() + 3), std::move(biases)};
  }

  [[nodiscard]] AttentionInputs split(const at::Tensor& matrix, int64_t sequences) const {
    return kernel::joined_inputs(matrix, sequences, node_.heads, node_.kv_heads, node_.head_dim);
  }

  void rotate(const MicroBatch& batch, const AttentionInputs& parts, bool back) {
    if (frequencies_.inverse.empty() || batch.positions.numel() == 0) return;
    const int64_t positions = batch.positions.max().item<int64_t>() + 1;
    if (positions > table_.positions()) {
      // In powers of two, so that generation token by token does not build a table each time.
      int64_t size = 64;
      while (size < positions) size *= 2;
      table_ = kernel::rotation_table(frequencies_.inverse, frequencies_.attention_factor, size, parts.query.device());
    }
    kernel::rotate(parts.query, batch.positions, table_, back);
    kernel::rotate(parts.key, batch.positions, table_, back);
  }

  const model::GroupedQueryAttention& node_;
  Linear product_;
  std::optional<Norm> query_norm_, key_norm_;
  model::RopeFrequencies frequencies_;
  kernel::RotationTable table_;
};

}  // namespace

std::unique_ptr<Segment> make_query_key_value_segment(const model::SegmentDescription& description) {
  return std::make_unique<QueryKeyValueSegment>(description);
}

}  // namespace weft::nn
