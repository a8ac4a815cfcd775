#include "nn/autograd_segment.h"

#include <string>
#include <utility>

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/autograd.h>

#include "base/check.h"
#include "base/error.h"

namespace weft::nn {
namespace {

// Saved holds inputs, parameters, outputs in this order; only the outputs' graph knows the operators between.
struct Parts {
  Tensors leaves, outputs;
};

at::Tensor leaf(const at::Tensor& tensor, bool training) {
  if (!tensor.defined()) return tensor;
  return tensor.detach().set_requires_grad(training && tensor.is_floating_point());
}

// Only outputs that depend on a leaf have a graph to go back through.
Parts differentiable(const Saved& saved, size_t leaves, Tensors& output_gradients) {
  Parts parts;
  parts.leaves.assign(saved.tensors.begin(), saved.tensors.begin() + static_cast<std::ptrdiff_t>(leaves));
  Tensors gradients;
  for (size_t i = 0; i < output_gradients.size(); ++i) {
    const at::Tensor& output = saved.tensors[leaves + i];
    if (!output.defined() || !output.requires_grad() || !output_gradients[i].defined()) continue;
    parts.outputs.push_back(output);
    gradients.push_back(output_gradients[i].to(output.scalar_type()));
  }
  output_gradients = std::move(gradients);
  return parts;
}

}  // namespace

AutogradSegment::AutogradSegment(std::vector<int> parameters, at::ScalarType type)
    : parameters_(std::move(parameters)), type_(type) {}

Tensors AutogradSegment::forward(RunContext& context, const Tensors& inputs, Saved& saved) {
  if (context.shard != Shard{}) {
    throw Error(
        "a segment that autograd differentiates computes on one rank, whole and not in strict mode: of tensor " +
        std::to_string(context.shard.tensor) + ", context " + std::to_string(context.shard.context) +
        (context.shard.strict ? ", strict" : "") + " it knows no part");
  }
  const c10::AutoGradMode mode(context.training);
  Tensors leaves, parameters;
  for (const at::Tensor& input : inputs) leaves.push_back(leaf(input, context.training));
  for (const int index : parameters_) {
    parameters.push_back(leaf(context.parameters->value(index).to(type_), context.training));
  }
  const Tensors computed = compute(context, leaves, parameters);
  if (context.training) {
    saved.tensors = leaves;
    saved.tensors.insert(saved.tensors.end(), parameters.begin(), parameters.end());
    saved.tensors.insert(saved.tensors.end(), computed.begin(), computed.end());
  }
  Tensors outputs;
  for (const at::Tensor& output : computed) outputs.push_back(output.defined() ? output.detach() : output);
  return outputs;
}

Tensors AutogradSegment::backward(RunContext& context, Saved& saved, Tensors output_gradients) {
  const size_t leaves = saved.tensors.size() - output_gradients.size();
  const size_t inputs = leaves - parameters_.size();
  const Parts parts = differentiable(saved, leaves, output_gradients);
  WEFT_CHECK(!parts.outputs.empty());
  Tensors wanted;
  for (const at::Tensor& each : parts.leaves) {
    if (each.defined() && each.requires_grad()) wanted.push_back(each);
  }
  const Tensors found =
      torch::autograd::grad(parts.outputs, wanted, output_gradients, /*retain_graph=*/{}, false, /*allow_unused=*/true);
  Tensors gradients(leaves);
  for (size_t i = 0, next = 0; i < leaves; ++i) {
    if (parts.leaves[i].defined() && parts.leaves[i].requires_grad()) gradients[i] = found[next++];
  }
  const Tensors weights(gradients.begin() + static_cast<std::ptrdiff_t>(inputs), gradients.end());
  context.weight_gradient([weights, parameters = context.parameters, indices = parameters_] {
    for (size_t i = 0; i < weights.size(); ++i) {
      if (!weights[i].defined()) continue;
      const GradientTarget target = parameters->gradient_target(indices[i]);
      if (!target.buffer.defined()) continue;
      target.accumulate ? target.buffer.add_(weights[i]) : target.buffer.copy_(weights[i]);
    }
  });
  gradients.resize(inputs);
  return gradients;
}

}  // namespace weft::nn
