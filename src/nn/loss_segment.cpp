#include <ATen/ATen.h>

#include "base/check.h"
#include "kernel/cross_entropy.h"
#include "nn/linear.h"
#include "nn/segment_kinds.h"

namespace weft::nn {
namespace {

// logits -> the sum of the target tokens' cross-entropies, and metric loss_sum. In training the logits, which the loss
// owns, become their gradient at once (scaled by the context's loss_scale, the only gradient that a loss can have), so
// that no second matrix of their size exists.
class LossSegment : public Segment {
 public:
  Tensors forward(RunContext& context, const Tensors& inputs, Saved& saved) override {
    const at::Tensor& logits = inputs[0];
    kernel::CrossEntropyOptions options;
    options.gradient = context.training;
    options.scale = context.loss_scale;
    options.gradient_type = context.parameters->compute_type();
    const kernel::CrossEntropy result =
        kernel::cross_entropy(as_rows(logits), context.batch->targets.reshape({-1}), options);
    if (context.training) saved.tensors = {result.gradient.view(logits.sizes())};
    context.metrics["loss_sum"] += result.loss_sum;
    return {at::scalar_tensor(result.loss_sum, at::TensorOptions(at::kDouble).device(logits.device()))};
  }

  Tensors backward(RunContext&, Saved& saved, Tensors) override { return {std::move(saved.tensors[0]), at::Tensor()}; }
};

}  // namespace

std::unique_ptr<Segment> make_loss_segment(const model::SegmentDescription&) { return std::make_unique<LossSegment>(); }

}  // namespace weft::nn
