#include <ATen/ATen.h>

#include "base/check.h"
#include "kernel/activation.h"
#include "nn/linear.h"
#include "nn/segment_kinds.h"

namespace weft::nn {
namespace {

// normed -> down(activation(in(normed))), of the ffn units that the tensor rank holds. Keeps what the activation reads;
// its output is computed again in the backward, by the pass that computes the activation's gradient.
class MlpSegment : public Segment {
 public:
  MlpSegment(Linear in, Linear down) : in_(std::move(in)), down_(std::move(down)) {}

  Tensors forward(RunContext& context, const Tensors& inputs, Saved& saved) override {
    const at::Tensor x = as_rows(inputs[0]);
    const at::Tensor before = in_.forward(*context.parameters, x);
    const at::Tensor after = activate(before);
    if (context.training) saved.tensors = {x, before};
    return {as_sequences(down_.partial_forward(context, after), inputs[0].size(0), inputs[0].size(1))};
  }

  Tensors backward(RunContext& context, Saved& saved, Tensors output_gradients) override {
    const at::Tensor &x = saved.tensors[0], &before = saved.tensors[1];
    const at::Tensor dout = as_rows(output_gradients[0]);
    const at::Tensor dafter = down_.input_gradient(*context.parameters, dout);
    activate_backward(dafter, before);
    down_.weight_gradients(context, dout, dafter);
    in_.weight_gradients(context, before, x);
    const at::Tensor& upper = output_gradients[0];
    return {as_sequences(in_.partial_input_gradient(context, before), upper.size(0), upper.size(1))};
  }

 private:
  [[nodiscard]] virtual at::Tensor activate(const at::Tensor& before) const = 0;
  // dafter becomes what activate gave, `before` becomes its gradient.
  virtual void activate_backward(const at::Tensor& dafter, const at::Tensor& before) const = 0;

  Linear in_, down_;
};

class SwiGluSegment : public MlpSegment {
 public:
  using MlpSegment::MlpSegment;

 private:
  [[nodiscard]] at::Tensor activate(const at::Tensor& before) const override { return kernel::swiglu_forward(before); }
  void activate_backward(const at::Tensor& dafter, const at::Tensor& before) const override {
    kernel::swiglu_backward(dafter, before);
  }
};

class GeluSegment : public MlpSegment {
 public:
  GeluSegment(Linear in, Linear down, bool tanh) : MlpSegment(std::move(in), std::move(down)), tanh_(tanh) {}

 private:
  [[nodiscard]] at::Tensor activate(const at::Tensor& before) const override {
    return kernel::gelu_forward(before, tanh_);
  }
  void activate_backward(const at::Tensor& dafter, const at::Tensor& before) const override {
    kernel::gelu_backward(dafter, before, tanh_);
  }
  bool tanh_;
};

}  // namespace

std::unique_ptr<Segment> make_mlp_segment(const model::ModelDescription& model,
                                          const model::SegmentDescription& description) {
  const std::vector<int>& all = description.parameters;
  const auto linear = [&](std::vector<int> weights, std::vector<int> biases) {
    return Linear(model, description.path, std::move(weights), std::move(biases));
  };
  if (const auto* swiglu = dynamic_cast<const model::SwiGluMlp*>(description.node)) {
    WEFT_CHECK(all.size() == (swiglu->bias ? 6U : 3U));
    if (swiglu->bias) {
      return std::make_unique<SwiGluSegment>(linear({all[0], all[1]}, {all[2], all[3]}), linear({all[4]}, {all[5]}));
    }
    return std::make_unique<SwiGluSegment>(linear({all[0], all[1]}, {}), linear({all[2]}, {}));
  }
  const auto& gelu = node_of<model::GeluMlp>(description);
  WEFT_CHECK(all.size() == (gelu.bias ? 4U : 2U));
  const bool tanh = gelu.approximation == "tanh";
  if (gelu.bias) return std::make_unique<GeluSegment>(linear({all[0]}, {all[1]}), linear({all[2]}, {all[3]}), tanh);
  return std::make_unique<GeluSegment>(linear({all[0]}, {}), linear({all[1]}, {}), tanh);
}

}  // namespace weft::nn
