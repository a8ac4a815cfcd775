#include <ATen/ATen.h>

#include "base/check.h"
#include "base/hash.h"
#include "kernel/dropout.h"
#include "kernel/embedding.h"
#include "nn/dropout_of_step.h"
#include "nn/leaves.h"
#include "nn/linear.h"
#include "nn/segment_kinds.h"
#include "nn/tokens.h"

namespace weft::nn {
namespace {

// x = dropout(multiplier * token row + position row), for the tokens whose rows the tensor rank holds, and 0 for
// others.
class EmbedSegment : public Segment {
 public:
  EmbedSegment(const model::ModelDescription& model, const model::SegmentDescription& description)
      : node_(node_of<model::ModelNode>(description).embedding),
        path_hash_(xxh64(description.path)),
        tokens_(description.parameters.at(0)),
        positions_(description.parameters.size() > 1 ? description.parameters[1] : -1),
        table_(model.parameters.at(static_cast<size_t>(tokens_))) {}

  Tensors forward(RunContext& context, const Tensors&, Saved&) override {
    const ParameterStore& parameters = *context.parameters;
    const Rows rows = held(context);
    at::Tensor x = kernel::gather_rows(parameters.value(tokens_), rows.indices, node_.multiplier);
    if (positions_ >= 0) kernel::add_rows(x, parameters.value(positions_), context.batch->positions);
    const kernel::Dropout dropout = dropout_of(context);
    if (dropout.enabled()) kernel::apply_dropout(x, dropout);
    if (rows.elsewhere.defined()) x.masked_fill_(rows.elsewhere.unsqueeze(-1), 0);
    if (context.shard.strict) x.add_(0.0);  // no -0, which is lost where ranks' outputs are added
    return {x};
  }

  Tensors backward(RunContext& context, Saved&, Tensors output_gradients) override {
    at::Tensor dx = std::move(output_gradients[0]);
    const kernel::Dropout dropout = dropout_of(context);
    if (dropout.enabled()) {
      dx = to_overwrite(std::move(dx)).contiguous();
      kernel::apply_dropout(dx, dropout);
    }
    if (context.shard.strict) {
      add_leaves(context, dx);
      return {};
    }
    context.weight_gradient([this, dx, rows = held(context), batch = context.batch, parameters = context.parameters] {
      const at::Tensor table = gradient_to_add_to(*parameters, tokens_);
      if (table.defined()) add_rows(table, dx, rows);
      const at::Tensor places = positions_ >= 0 ? gradient_to_add_to(*parameters, positions_) : at::Tensor();
      if (places.defined()) kernel::scatter_add_rows(places, dx, batch->positions, 1);
    });
    return {};
  }

 private:
  // The tokens as rows of the table that the rank holds, and which of them it does not hold (undefined: none).
  struct Rows {
    at::Tensor indices, elsewhere;
  };

  [[nodiscard]] Rows held(const RunContext& context) const {
    const at::Tensor& tokens = context.batch->tokens;
    if (context.shard.tensor == 1) return {tokens, {}};
    const Range range = held_rows(table_, context.shard);
    const at::Tensor local = tokens - range.begin;
    return {local.clamp(0, range.size() - 1), local.lt(0).logical_or(local.ge(range.size()))};
  }

  [[nodiscard]] kernel::Dropout dropout_of(const RunContext& context) const {
    return dropout_of_step(context, node_.dropout, path_hash_, context_tokens(context));
  }

  // dx [.., width] of these tokens to the rows' gradients.
  void add_rows(const at::Tensor& table, const at::Tensor& dx, const Rows& rows) const {
    if (!rows.elsewhere.defined()) return kernel::scatter_add_rows(table, dx, rows.indices, node_.multiplier);
    const at::Tensor here = rows.elsewhere.reshape({-1}).logical_not().nonzero().squeeze(1);
    kernel::scatter_add_rows(table, as_rows(dx).index_select(0, here), rows.indices.reshape({-1}).index_select(0, here),
                             node_.multiplier);
  }

  // A leaf is a whole table, as large as a leaf of the head's weight gradient.
  void add_leaves(RunContext& context, const at::Tensor& dx) const {
    WEFT_CHECK(context.leaf_gradients != nullptr);
    const Range range = held_rows(table_, context.shard);
    context.weight_gradient([this, dx, range, rows = held(context), batch = context.batch,
                             leaves = token_leaves(context, context_tokens(context)), parameters = context.parameters,
                             gradients = context.leaf_gradients] {
      for (const TokenLeaf& leaf : leaves) {
        const auto part = [&](const at::Tensor& whole) {
          return whole.defined() ? whole.select(0, leaf.sequence).narrow(0, leaf.tokens.first, leaf.rows()) : whole;
        };
        if (!parameters->frozen(tokens_)) {
          const at::Tensor table = at::zeros(parameters->value(tokens_).sizes(), at::kFloat);
          add_rows(table, part(dx), {part(rows.indices), part(rows.elsewhere)});
          gradients->add({tokens_, range.begin, range.end, path_hash_, 1}, {0, leaf.leaf}, table);
        }
        if (positions_ >= 0 && !parameters->frozen(positions_)) {
          const at::Tensor places = at::zeros(parameters->value(positions_).sizes(), at::kFloat);
          kernel::scatter_add_rows(places, part(dx), part(batch->positions), 1);
          gradients->add({positions_, 0, places.size(0), path_hash_, 1}, {0, leaf.leaf}, places);
        }
      }
    });
  }

  const model::EmbeddingNode& node_;
  uint64_t path_hash_;
  int tokens_, positions_;
  const model::ParameterDescription& table_;
};

}  // namespace

std::unique_ptr<Segment> make_embed_segment(const model::ModelDescription& model,
                                            const model::SegmentDescription& description) {
  return std::make_unique<EmbedSegment>(model, description);
}

}  // namespace weft::nn
