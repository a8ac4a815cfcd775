#include "nn/linear.h"

#include <utility>

#include <ATen/ATen.h>

#include "base/check.h"
#include "kernel/product.h"

namespace weft::nn {
namespace {

// Calls body(weight or gradient number, first column, columns) for weights that are not joined.
template <typename Body>
void each_part(const ParameterStore& parameters, const std::vector<int>& weights, Body body) {
  int64_t first = 0;
  for (size_t part = 0; part < weights.size(); ++part) {
    const int64_t columns = parameters.value(weights[part]).size(0);
    body(part, first, columns);
    first += columns;
  }
}

int64_t total_columns(const ParameterStore& parameters, const std::vector<int>& weights) {
  int64_t total = 0;
  for (const int weight : weights) total += parameters.value(weight).size(0);
  return total;
}

void add_weight_gradient(const GradientTarget& target, const at::Tensor& dy, const at::Tensor& x) {
  if (target.buffer.defined()) kernel::product_weight_gradient(target.buffer, dy, x, target.accumulate);
}

void add_bias_gradient(const GradientTarget& target, const at::Tensor& dy) {
  if (!target.buffer.defined()) return;
  if (!target.accumulate) target.buffer.zero_();
  kernel::bias_gradient(target.buffer, dy);
}

// One call of `add` for all parameters where they are joined, else one each.
template <typename Add>
void add_gradients(ParameterStore& parameters, const std::vector<int>& indices, const at::Tensor& dy, Add add) {
  if (indices.empty()) return;
  const GradientTarget joined = parameters.joined_gradient_target(indices);
  if (joined.buffer.defined()) return add(joined, dy);
  each_part(parameters, indices, [&](size_t part, int64_t first, int64_t columns) {
    add(parameters.gradient_target(indices[part]), dy.narrow(1, first, columns));
  });
}

}  // namespace

Linear::Linear(std::vector<int> weights, std::vector<int> biases)
    : weights_(std::move(weights)), biases_(std::move(biases)) {
  WEFT_CHECK(!weights_.empty() && (biases_.empty() || biases_.size() == weights_.size()));
}

at::Tensor Linear::forward(const ParameterStore& parameters, const at::Tensor& x) const {
  return forward(parameters, x, x.scalar_type());
}

at::Tensor Linear::forward(const ParameterStore& parameters, const at::Tensor& x, at::ScalarType type) const {
  const at::Tensor weight = parameters.joined_value(weights_);
  const at::Tensor bias = biases_.empty() ? at::Tensor() : parameters.joined_value(biases_);
  if (weight.defined() && (biases_.empty() || bias.defined())) {
    return kernel::linear(x, weight, bias.defined() ? bias.to(at::kFloat) : bias, type);
  }
  at::Tensor out = at::empty({x.size(0), total_columns(parameters, weights_)}, x.options().dtype(type));
  each_part(parameters, weights_, [&](size_t part, int64_t first, int64_t columns) {
    const at::Tensor part_bias = biases_.empty() ? at::Tensor() : float_value(parameters, biases_[part]);
    kernel::product_forward(out.narrow(1, first, columns), x, parameters.value(weights_[part]), part_bias);
  });
  return out;
}

at::Tensor Linear::input_gradient(const ParameterStore& parameters, const at::Tensor& dy) const {
  const at::Tensor weight = parameters.joined_value(weights_);
  if (weight.defined()) return kernel::linear_input_gradient(dy, weight);
  at::Tensor sum = at::empty({dy.size(0), parameters.value(weights_[0]).size(1)}, dy.options().dtype(at::kFloat));
  each_part(parameters, weights_, [&](size_t part, int64_t first, int64_t columns) {
    kernel::product_input_gradient(sum, dy.narrow(1, first, columns), parameters.value(weights_[part]), part > 0);
  });
  return sum.to(dy.scalar_type());
}

void Linear::weight_gradients(RunContext& context, const at::Tensor& dy, const at::Tensor& x) const {
  context.weight_gradient([this, parameters = context.parameters, dy, x] {
    add_gradients(*parameters, weights_, dy,
                  [&](const GradientTarget& target, const at::Tensor& part) { add_weight_gradient(target, part, x); });
    add_gradients(*parameters, biases_, dy, add_bias_gradient);
  });
}

at::Tensor gradient_to_add_to(ParameterStore& parameters, int index) {
  const GradientTarget target = parameters.gradient_target(index);
  if (target.buffer.defined() && !target.accumulate) target.buffer.zero_();
  return target.buffer;
}

at::Tensor float_value(const ParameterStore& parameters, int index) { return parameters.value(index).to(at::kFloat); }

at::Tensor as_rows(const at::Tensor& x) { return x.reshape({-1, x.size(-1)}); }

bool is_unshared(const at::Tensor& tensor) { return tensor.use_count() == 1 && tensor.storage().use_count() == 1; }

at::Tensor to_overwrite(at::Tensor tensor) {
  if (is_unshared(tensor)) return tensor;
  return tensor.clone();
}

}  // namespace weft::nn
