#include "nn/norm_of.h"

#include <string>
#include <utility>

#include <ATen/ATen.h>

#include "base/check.h"
#include "base/error.h"
#include "base/hash.h"
#include "nn/linear.h"
#include "nn/segment.h"

namespace weft::nn {

Norm::Norm(const model::NormNode& node, const std::string& path, std::vector<int> parameters)
    : rms_norm_(dynamic_cast<const model::RmsNorm*>(&node)),
      layer_norm_(dynamic_cast<const model::LayerNorm*>(&node)),
      use_(xxh64(path)),
      parameters_(std::move(parameters)) {
  if (rms_norm_ == nullptr && layer_norm_ == nullptr) {
    throw Error("no computation for the norm " + std::string(node.kind()));
  }
  WEFT_CHECK(parameters_.size() == parameter_count(node));
}

size_t Norm::parameter_count(const model::NormNode& node) {
  const auto* layer_norm = dynamic_cast<const model::LayerNorm*>(&node);
  return layer_norm != nullptr && layer_norm->bias ? 2 : 1;
}

kernel::NormResult Norm::forward(const RunContext& context, const at::Tensor& x) const {
  const ParameterStore& parameters = *context.parameters;
  const at::Tensor weight = float_value(parameters, parameters_[0]);
  if (rms_norm_ != nullptr) return kernel::rms_norm_forward(x, weight, rms_norm_->epsilon, context.training);
  const at::Tensor bias = parameters_.size() > 1 ? float_value(parameters, parameters_[1]) : at::Tensor();
  return kernel::layer_norm_forward(x, weight, bias, layer_norm_->epsilon, context.training);
}

void Norm::backward(RunContext& context, const at::Tensor& dy, const at::Tensor& x,
                    const at::Tensor& statistics) const {
  ParameterStore& parameters = *context.parameters;
  kernel::NormParameterGradients gradients;
  gradients.weight = gradient_to_add_to(parameters, parameters_[0]);
  if (parameters_.size() > 1) gradients.bias = gradient_to_add_to(parameters, parameters_[1]);
  kernel_backward()(dy, x, float_value(parameters, parameters_[0]), statistics, gradients);
}

void Norm::backward_of_leaf(RunContext& context, const at::Tensor& dy, const at::Tensor& x,
                            const at::Tensor& statistics, int64_t leaf, int64_t leaves_per_unit) const {
  WEFT_CHECK(context.leaf_gradients != nullptr);
  ParameterStore& parameters = *context.parameters;
  const int64_t features = x.size(-1);
  Tensors gradients(2);
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (!parameters.frozen(parameters_[i])) gradients[i] = at::zeros({features}, at::kFloat);
  }
  kernel_backward()(dy, x, float_value(parameters, parameters_[0]), statistics, {gradients[0], gradients[1]});
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (!gradients[i].defined()) continue;
    context.leaf_gradients->add({parameters_[i], 0, features, use_, leaves_per_unit}, {0, leaf}, gradients[i]);
  }
}

const kernel::NormBackward& Norm::kernel_backward() const {
  return rms_norm_ != nullptr ? kernel::rms_norm_backward : kernel::layer_norm_backward;
}

}  // namespace weft::nn
