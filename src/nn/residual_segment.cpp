#include <ATen/ATen.h>

#include "base/hash.h"
#include "kernel/dropout.h"
#include "kernel/residual.h"
#include "nn/dropout_of_step.h"
#include "nn/linear.h"
#include "nn/segment_kinds.h"

namespace weft::nn {
namespace {

// x, branch -> x + multiplier * dropout(branch).
class ResidualSegment : public Segment {
 public:
  explicit ResidualSegment(const model::SegmentDescription& description)
      : node_(node_of<model::ResidualNode>(description)), path_hash_(xxh64(description.path)) {}

  Tensors forward(RunContext& context, const Tensors& inputs, Saved&) override {
    const kernel::Dropout dropout = dropout_of_step(context, node_.dropout, path_hash_, stream_tokens(context));
    at::Tensor branch = inputs[1].contiguous();
    if (dropout.enabled()) {
      branch = branch.clone();
      kernel::apply_dropout(branch, dropout);
    }
    return {kernel::add_scaled(inputs[0].contiguous(), branch, node_.multiplier)};
  }

  Tensors backward(RunContext& context, Saved&, Tensors output_gradients) override {
    const at::Tensor dx = std::move(output_gradients[0]);
    const kernel::Dropout dropout = dropout_of_step(context, node_.dropout, path_hash_, stream_tokens(context));
    if (!dropout.enabled() && node_.multiplier == 1) return {dx, dx};
    const at::Tensor dbranch = dx.clone(at::MemoryFormat::Contiguous);
    if (dropout.enabled()) kernel::apply_dropout(dbranch, dropout);
    if (node_.multiplier != 1) kernel::scale_in_place(dbranch, node_.multiplier);
    return {dx, dbranch};
  }

 private:
  const model::ResidualNode& node_;
  uint64_t path_hash_;
};

}  // namespace

std::unique_ptr<Segment> make_residual_segment(const model::ModelDescription&,
                                               const model::SegmentDescription& description) {
  return std::make_unique<ResidualSegment>(description);
}

}  // namespace weft::nn
