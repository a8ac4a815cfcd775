#include <ATen/ATen.h>

#include "kernel/residual.h"
#include "nn/linear.h"
#include "nn/segment_kinds.h"

namespace weft::nn {
namespace {

// normed -> multiplier * weight normed, in fp32: the softmax of a large vocabulary needs the digits.
class LogitsSegment : public Segment {
 public:
  explicit LogitsSegment(const model::SegmentDescription& description)
      : node_(node_of<model::HeadNode>(description)), product_({description.parameters.at(0)}, {}) {}

  Tensors forward(RunContext& context, const Tensors& inputs, Saved& saved) override {
    const at::Tensor x = as_rows(inputs[0]);
    if (context.training) saved.tensors = {x};
    const at::Tensor logits = product_.forward(*context.parameters, multiplied(x), at::kFloat);
    return {logits.view({inputs[0].size(0), inputs[0].size(1), -1}), at::Tensor()};
  }

  Tensors backward(RunContext& context, Saved& saved, Tensors output_gradients) override {
    const at::Tensor& x = saved.tensors[0];
    const at::Tensor dlogits = as_rows(output_gradients[0].to(x.scalar_type()));
    product_.weight_gradients(context, dlogits, multiplied(x));
    const at::Tensor dx = product_.input_gradient(*context.parameters, dlogits);
    if (node_.multiplier != 1) kernel::scale_in_place(dx, node_.multiplier);
    return {dx.view({output_gradients[0].size(0), output_gradients[0].size(1), -1})};
  }

 private:
  // The multiplier goes to the smaller factor of the product.
  [[nodiscard]] at::Tensor multiplied(const at::Tensor& x) const {
    return node_.multiplier == 1 ? x : x * node_.multiplier;
  }

  const model::HeadNode& node_;
  Linear product_;
};

}  // namespace

std::unique_ptr<Segment> make_logits_segment(const model::SegmentDescription& description) {
  return std::make_unique<LogitsSegment>(description);
}

}  // namespace weft::nn
