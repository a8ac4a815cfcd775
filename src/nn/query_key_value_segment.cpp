#include <algorithm>
#include <optional>
#include <vector>

#include <ATen/ATen.h>

#include "base/check.h"
#include "base/hash.h"
#include "kernel/attention.h"
#include "kernel/product.h"
#include "kernel/rope.h"
#include "nn/leaves.h"
#include "nn/linear.h"
#include "nn/norm_of.h"
#include "nn/segment_kinds.h"
#include "nn/tokens.h"

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

// normed -> query, key, value: one product, a norm of each head where asked for, then the rotation. Of the heads that
// the tensor rank holds.
class QueryKeyValueSegment : public Segment {
 public:
  QueryKeyValueSegment(const model::ModelDescription& model, const model::SegmentDescription& description)
      : node_(node_of<model::GroupedQueryAttention>(description)),
        parameters_(description.parameters),
        use_(xxh64(description.path)),
        product_(product(node_, model, description)) {
    size_t next = node_.bias ? 6 : 3;
    if (node_.query_key_norm) {
      for (std::optional<Norm>* norm : {&query_norm_, &key_norm_}) {
        const size_t count = Norm::parameter_count(*node_.query_key_norm);
        WEFT_CHECK(next + count <= parameters_.size());
        const auto first = parameters_.begin() + static_cast<std::ptrdiff_t>(next);
        norm->emplace(*node_.query_key_norm, description.path,
                      std::vector<int>(first, first + static_cast<std::ptrdiff_t>(count)));
        next += count;
      }
    }
    WEFT_CHECK(next == parameters_.size());
    if (node_.rope) frequencies_ = node_.rope->frequencies(node_.head_dim);
  }

  Tensors forward(RunContext& context, const Tensors& inputs, Saved& saved) override {
    const at::Tensor x = as_rows(inputs[0]);
    const at::Tensor matrix = product_.forward(*context.parameters, x);
    AttentionInputs parts = split(context, matrix, inputs[0].size(0));
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
    rotate(*context.batch, parts.query, parts.key, false);
    return {parts.query, parts.key, parts.value};
  }

  Tensors backward(RunContext& context, Saved& saved, Tensors output_gradients) override {
    if (context.shard.strict) return backward_by_leaves(context, saved, output_gradients);
    const int64_t sequences = output_gradients[0].size(0);
    const int64_t length = output_gradients[0].size(1);
    const at::Tensor matrix = joined_matrix(std::move(output_gradients));
    const AttentionInputs parts = split(context, matrix, sequences);
    rotate(*context.batch, parts.query, parts.key, true);
    if (query_norm_) {
      query_norm_->backward(context, parts.query, saved.tensors[1], saved.tensors[2]);
      key_norm_->backward(context, parts.key, saved.tensors[3], saved.tensors[4]);
    }
    product_.weight_gradients(context, matrix, saved.tensors[0]);
    return {product_.input_gradient(*context.parameters, matrix).view({sequences, length, -1})};
  }

 private:
  static Linear product(const model::GroupedQueryAttention& node, const model::ModelDescription& model,
                        const model::SegmentDescription& description) {
    const std::vector<int>& all = description.parameters;
    WEFT_CHECK(all.size() >= (node.bias ? 6U : 3U));
    std::vector<int> biases;
    if (node.bias) biases.assign(all.begin() + 3, all.begin() + 6);
    return {model, description.path, std::vector<int>(all.begin(), all.begin() + 3), std::move(biases)};
  }

  // The heads that the rank holds.
  struct Held {
    Range query, key_value;
    int64_t group;
    // The place among the rank's key/value heads of that which a query head reads.
    [[nodiscard]] int64_t key_value_of(int64_t query_head) const { return query_head / group - key_value.begin; }
  };

  [[nodiscard]] Held held(const RunContext& context) const {
    const model::Heads heads{node_.heads, node_.kv_heads};
    const Shard& shard = context.shard;
    return {held_query_heads(heads, shard.tensor, shard.tensor_rank),
            held_key_value_heads(heads, shard.tensor, shard.tensor_rank), heads.group()};
  }

  [[nodiscard]] AttentionInputs split(const RunContext& context, const at::Tensor& matrix, int64_t sequences) const {
    const Held heads = held(context);
    return kernel::joined_inputs(matrix, sequences, heads.query.size(), heads.key_value.size(), node_.head_dim);
  }

  // Strict mode: all gradients by query head, as attention gives them.
  Tensors backward_by_leaves(RunContext& context, const Saved& saved, const Tensors& output_gradients) {
    const int64_t sequences = output_gradients[0].size(0), length = output_gradients[0].size(1);
    AttentionInputs by_head;
    for (auto [to, from] : {std::pair{&by_head.query, 0}, {&by_head.key, 1}, {&by_head.value, 2}}) {
      *to = output_gradients[static_cast<size_t>(from)].clone(at::MemoryFormat::Contiguous);
    }
    rotate(*context.batch, by_head.query, by_head.key, true);
    if (query_norm_) norm_leaves(context, saved, by_head);
    const at::Tensor x = saved.tensors[0];
    add_weight_leaves(context, by_head, x);
    return {as_sequences(input_gradient(context, by_head, sequences * length), sequences, length)};
  }

  void norm_leaves(RunContext& context, const Saved& saved, const AttentionInputs& by_head) const {
    const Held heads = held(context);
    for (const TokenLeaf& leaf : token_leaves(context, context_tokens(context))) {
      for (int64_t head = heads.query.begin; head < heads.query.end; ++head) {
        const int64_t query_place = head - heads.query.begin, key_place = heads.key_value_of(head);
        const int64_t number = leaf.leaf * node_.heads + head;
        const auto rows = [&](const at::Tensor& all, int64_t place) {
          return all.select(0, leaf.sequence).narrow(0, leaf.tokens.first, leaf.rows()).narrow(1, place, 1);
        };
        const auto statistics = [&](const at::Tensor& all, const at::Tensor& x, int64_t place) {
          std::vector<int64_t> shape = {x.size(0), x.size(1), x.size(2)};
          if (all.dim() > 1) shape.push_back(all.size(1));
          return rows(all.view(shape), place).squeeze(1).contiguous();
        };
        const at::Tensor &query = saved.tensors[1], &key = saved.tensors[3];
        query_norm_->backward_of_leaf(context, rows(by_head.query, query_place), rows(query, query_place),
                                      statistics(saved.tensors[2], query, query_place), number, node_.heads);
        key_norm_->backward_of_leaf(context, rows(by_head.key, query_place), rows(key, key_place),
                                    statistics(saved.tensors[4], key, key_place), number, node_.heads);
      }
    }
  }

  // Leaves are query heads, each with its share of its key/value head's gradient.
  [[nodiscard]] at::Tensor input_gradient(const RunContext& context, const AttentionInputs& by_head,
                                          int64_t rows) const {
    const Held heads = held(context);
    const int64_t size = node_.head_dim;
    TensorSum sum;
    for (int64_t head = heads.query.begin; head < heads.query.end; ++head) {
      const int64_t place = head - heads.query.begin, key_place = heads.key_value_of(head);
      const at::Tensor leaf =
          at::empty({rows, context.parameters->value(parameters_[0]).size(1)}, by_head.query.options());
      const auto add = [&](const at::Tensor& dy, size_t weight, int64_t weight_place) {
        kernel::product_input_gradient(
            leaf, head_rows(dy, place),
            context.parameters->value(parameters_[weight]).narrow(0, weight_place * size, size), weight > 0);
      };
      add(by_head.query, 0, place);
      add(by_head.key, 1, key_place);
      add(by_head.value, 2, key_place);
      sum.add({0, head}, leaf);
    }
    return sum_or_stack(sum, node_.heads, context.shard.tensor == 1);
  }

  // [sequences, length, heads, head_dim] -> [sequences * length, head_dim] of one head.
  static at::Tensor head_rows(const at::Tensor& x, int64_t place) { return x.flatten(0, 1).select(1, place); }

  // The query's weight rows are the rank's own; those of a key/value head may be shared, so their leaves are numbered
  // by query head too.
  void add_weight_leaves(RunContext& context, const AttentionInputs& by_head, const at::Tensor& x) const {
    WEFT_CHECK(context.leaf_gradients != nullptr);
    context.weight_gradient([this, by_head, x, heads = held(context), parameters = context.parameters,
                             gradients = context.leaf_gradients,
                             leaves = token_leaves(context, context_tokens(context))] {
      const Tensors parts = {by_head.query, by_head.key, by_head.value};
      for (const TokenLeaf& leaf : leaves) {
        for (int64_t head = heads.query.begin; head < heads.query.end; ++head) {
          for (size_t part = 0; part < 3; ++part) {
            const at::Tensor dy = head_rows(parts[part], head - heads.query.begin).narrow(0, leaf.row, leaf.rows());
            const int64_t row_head = part == 0 ? head : head / heads.group, share = part == 0 ? 1 : heads.group;
            const LeafNode node{0, leaf.leaf * share + head % share};
            LeafGradients::Block block{parameters_[part], row_head * node_.head_dim, (row_head + 1) * node_.head_dim,
                                       use_, share};
            if (!parameters->frozen(block.parameter)) {
              const at::Tensor gradient = at::empty({dy.size(1), x.size(1)}, at::kFloat);
              kernel::product_weight_gradient(gradient, dy, x.narrow(0, leaf.row, leaf.rows()), false);
              gradients->add(block, node, gradient);
            }
            if (!node_.bias) continue;
            block.parameter = parameters_[3 + part];
            if (parameters->frozen(block.parameter)) continue;
            const at::Tensor gradient = at::zeros({dy.size(1)}, at::kFloat);
            kernel::bias_gradient(gradient, dy);
            gradients->add(block, node, gradient);
          }
        }
      }
    });
  }

  void rotate(const MicroBatch& batch, const at::Tensor& query, const at::Tensor& key, bool back) {
    if (frequencies_.inverse.empty() || batch.positions.numel() == 0) return;
    const int64_t positions = batch.positions.max().item<int64_t>() + 1;
    if (positions > table_.positions()) {
      // In powers of two, so that generation token by token does not build a table each time.
      int64_t size = 64;
      while (size < positions) size *= 2;
      table_ = kernel::rotation_table(frequencies_.inverse, frequencies_.attention_factor, size, query.device());
    }
    kernel::rotate(query, batch.positions, table_, back);
    kernel::rotate(key, batch.positions, table_, back);
  }

  const model::GroupedQueryAttention& node_;
  std::vector<int> parameters_;
  uint64_t use_;
  Linear product_;
  std::optional<Norm> query_norm_, key_norm_;
  model::RopeFrequencies frequencies_;
  kernel::RotationTable table_;
};

}  // namespace

std::unique_ptr<Segment> make_query_key_value_segment(const model::ModelDescription& model,
                                                      const model::SegmentDescription& description) {
  return std::make_unique<QueryKeyValueSegment>(model, description);
}

}  // namespace weft::nn
