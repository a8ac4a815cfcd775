#include "nn/linear.h"

#include <utility>

#include <ATen/ATen.h>

#include "base/check.h"
#include "base/hash.h"
#include "kernel/product.h"
#include "kernel/residual.h"
#include "nn/leaves.h"
#include "nn/tokens.h"

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

Linear::Linear(const model::ModelDescription& model, const std::string& path, std::vector<int> weights,
               std::vector<int> biases)
    : model_(model), use_(xxh64(path)), weights_(std::move(weights)), biases_(std::move(biases)) {
  WEFT_CHECK(!weights_.empty() && (biases_.empty() || biases_.size() == weights_.size()));
}

const model::ParameterDescription& Linear::described(int index) const {
  return model_.parameters.at(static_cast<size_t>(index));
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

at::Tensor Linear::partial_forward(const RunContext& context, const at::Tensor& x) const {
  const ParameterStore& parameters = *context.parameters;
  const Shard& shard = context.shard;
  const bool bias = !biases_.empty() && shard.tensor_rank == 0;
  if (!shard.strict) {
    if (bias || biases_.empty()) return forward(parameters, x);
    return kernel::linear(x, parameters.value(weights_[0]), {});
  }
  const at::Tensor& weight = parameters.value(weights_[0]);
  const model::ParameterDescription& parameter = described(weights_[0]);
  const int64_t parts = cut_parts(parameter.tensor_cut);
  TensorSum sum;
  for (const HeldPart& part : held_parts(parameter, shard)) {
    at::Tensor leaf = at::empty({x.size(0), weight.size(0)}, x.options());
    kernel::product_forward(leaf, x.narrow(1, part.local.begin, part.local.size()),
                            weight.narrow(1, part.local.begin, part.local.size()), {});
    sum.add({0, part.number}, leaf);
  }
  if (bias) {
    sum.add({0, parts}, float_value(parameters, biases_[0]).expand({x.size(0), weight.size(0)}).contiguous());
  }
  return sum_or_stack(sum, parts + (biases_.empty() ? 0 : 1), shard.tensor == 1);
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

at::Tensor Linear::partial_input_gradient(const RunContext& context, const at::Tensor& dy, double factor) const {
  const ParameterStore& parameters = *context.parameters;
  const auto scaled = [factor](at::Tensor dx) {
    if (factor != 1) kernel::scale_in_place(dx, factor);
    return dx;
  };
  if (!context.shard.strict) return scaled(input_gradient(parameters, dy));
  TensorSum sum;
  for (const HeldPart& part : held_parts(described(weights_[0]), context.shard)) {
    at::Tensor leaf = at::empty({dy.size(0), parameters.value(weights_[0]).size(1)}, dy.options());
    each_part(parameters, weights_, [&](size_t weight, int64_t first, int64_t) {
      kernel::product_input_gradient(leaf, dy.narrow(1, first + part.local.begin, part.local.size()),
                                     parameters.value(weights_[weight]).narrow(0, part.local.begin, part.local.size()),
                                     weight > 0);
    });
    sum.add({0, part.number}, scaled(leaf));
  }
  return sum_or_stack(sum, cut_parts(described(weights_[0]).tensor_cut), context.shard.tensor == 1);
}

// One block a parameter, weights first.
std::vector<LeafGradients::Block> Linear::blocks(const RunContext& context) const {
  std::vector<LeafGradients::Block> blocks;
  for (const std::vector<int>* list : {&weights_, &biases_}) {
    for (const int index : *list) {
      const Range rows = held_rows(described(index), context.shard);
      blocks.push_back({index, rows.begin, rows.end, use_, 1});
    }
  }
  return blocks;
}

void Linear::add_leaves(RunContext& context, const at::Tensor& dy, const at::Tensor& x) const {
  WEFT_CHECK(context.leaf_gradients != nullptr);
  context.weight_gradient([this, dy, x, parameters = context.parameters, gradients = context.leaf_gradients,
                           leaves = token_leaves(context, context_tokens(context)), blocks = blocks(context)] {
    for (const TokenLeaf& leaf : leaves) {
      const at::Tensor dy_leaf = dy.narrow(0, leaf.row, leaf.rows()), x_leaf = x.narrow(0, leaf.row, leaf.rows());
      each_part(*parameters, weights_, [&](size_t part, int64_t first, int64_t columns) {
        const at::Tensor dy_part = dy_leaf.narrow(1, first, columns);
        if (!parameters->frozen(weights_[part])) {
          const at::Tensor gradient = at::empty({columns, x.size(1)}, at::kFloat);
          kernel::product_weight_gradient(gradient, dy_part, x_leaf, false);
          gradients->add(blocks[part], {0, leaf.leaf}, gradient);
        }
        if (!biases_.empty() && !parameters->frozen(biases_[part])) {
          const at::Tensor gradient = at::zeros({columns}, at::kFloat);
          kernel::bias_gradient(gradient, dy_part);
          gradients->add(blocks[weights_.size() + part], {0, leaf.leaf}, gradient);
        }
      });
    }
  });
}

void Linear::weight_gradients(RunContext& context, const at::Tensor& dy, const at::Tensor& x) const {
  if (context.shard.strict) return add_leaves(context, dy, x);
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

at::Tensor as_sequences(const at::Tensor& rows, int64_t sequences, int64_t length) {
  std::vector<int64_t> shape = rows.sizes().vec();
  shape[shape.size() - 2] = sequences;
  shape.insert(shape.end() - 1, length);
  return rows.view(shape);
}

bool is_unshared(const at::Tensor& tensor) { return tensor.use_count() == 1 && tensor.storage().use_count() == 1; }

at::Tensor to_overwrite(at::Tensor tensor) {
  if (is_unshared(tensor)) return tensor;
  return tensor.clone();
}

}  // namespace weft::nn
