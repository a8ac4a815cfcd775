#include <ATen/ATen.h>

#include "nn/linear.h"
#include "nn/norm_of.h"
#include "nn/segment_kinds.h"
#include "nn/tokens.h"

namespace weft::nn {
namespace {

class NormSegment : public Segment {
 public:
  explicit NormSegment(const model::SegmentDescription& description)
      : norm_(node_of<model::NormNode>(description), description.path, description.parameters) {}

  Tensors forward(RunContext& context, const Tensors& inputs, Saved& saved) override {
    const at::Tensor x = inputs[0].contiguous();
    kernel::NormResult result = norm_.forward(context, x);
    if (context.training) saved.tensors = {x, result.statistics};
    return {result.output};
  }

  Tensors backward(RunContext& context, Saved& saved, Tensors output_gradients) override {
    at::Tensor dy = to_overwrite(std::move(output_gradients[0])).contiguous();
    if (context.shard.strict) {
      backward_by_leaves(context, dy, saved);
    } else {
      norm_.backward(context, dy, saved.tensors[0], saved.tensors[1]);
    }
    return {dy};
  }

 private:
  void backward_by_leaves(RunContext& context, const at::Tensor& dy, const Saved& saved) const {
    for (const TokenLeaf& leaf : token_leaves(context, stream_tokens(context))) {
      const auto rows = [&](const at::Tensor& whole) { return whole.narrow(0, leaf.row, leaf.rows()); };
      norm_.backward_of_leaf(context, rows(as_rows(dy)), rows(as_rows(saved.tensors[0])), rows(saved.tensors[1]),
                             leaf.leaf, 1);
    }
  }

  Norm norm_;
};

}  // namespace

std::unique_ptr<Segment> make_norm_segment(const model::ModelDescription&,
                                           const model::SegmentDescription& description) {
  return std::make_unique<NormSegment>(description);
}

}  // namespace weft::nn
