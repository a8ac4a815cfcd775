#include <ATen/ATen.h>

#include "base/hash.h"
#include "kernel/dropout.h"
#include "kernel/embedding.h"
#include "nn/dropout_of_step.h"
#include "nn/linear.h"
#include "nn/segment_kinds.h"

namespace weft::nn {
namespace {

// x = dropout(multiplier * token row + position row).
class EmbedSegment : public Segment {
 public:
  explicit EmbedSegment(const model::SegmentDescription& description)
      : node_(node_of<model::ModelNode>(description).embedding),
        path_hash_(xxh64(description.path)),
        tokens_(description.parameters.at(0)),
        positions_(description.parameters.size() > 1 ? description.parameters[1] : -1) {}

  Tensors forward(RunContext& context, const Tensors&, Saved&) override {
    const ParameterStore& parameters = *context.parameters;
    at::Tensor x = kernel::gather_rows(parameters.value(tokens_), context.batch->tokens, node_.multiplier);
    if (positions_ >= 0) kernel::add_rows(x, parameters.value(positions_), context.batch->positions);
    const kernel::Dropout dropout = dropout_of_step(context, node_.dropout, path_hash_);
    if (dropout.enabled()) kernel::apply_dropout(x, dropout);
    return {x};
  }

  Tensors backward(RunContext& context, Saved&, Tensors output_gradients) override {
    at::Tensor dx = std::move(output_gradients[0]);
    const kernel::Dropout dropout = dropout_of_step(context, node_.dropout, path_hash_);
    if (dropout.enabled()) {
      dx = to_overwrite(std::move(dx)).contiguous();
      kernel::apply_dropout(dx, dropout);
    }
    context.weight_gradient([this, dx, batch = context.batch, parameters = context.parameters] {
      const at::Tensor table = gradient_to_add_to(*parameters, tokens_);
      if (table.defined()) kernel::scatter_add_rows(table, dx, batch->tokens, node_.multiplier);
      const at::Tensor places = positions_ >= 0 ? gradient_to_add_to(*parameters, positions_) : at::Tensor();
      if (places.defined()) kernel::scatter_add_rows(places, dx, batch->positions, 1);
    });
    return {};
  }

 private:
  const model::EmbeddingNode& node_;
  uint64_t path_hash_;
  int tokens_, positions_;
};

}  // namespace

std::unique_ptr<Segment> make_embed_segment(const model::SegmentDescription& description) {
  return std::make_unique<EmbedSegment>(description);
}

}  // namespace weft::nn
