// A linear layer whose weight may be several parameters below each other (query, key and value; gate and up): one
// product serves them all where they lie next to each other.
#pragma once

#include <vector>

#include <ATen/core/Tensor.h>

#include "nn/run_context.h"

namespace weft::nn {

class Linear {
 public:
  // Indices of parameters: the weights, and either no bias or one a weight.
  Linear(std::vector<int> weights, std::vector<int> biases);

  // x [rows, in] -> [rows, sum of outs], in x's type or in `type`.
  [[nodiscard]] at::Tensor forward(const ParameterStore& parameters, const at::Tensor& x) const;
  [[nodiscard]] at::Tensor forward(const ParameterStore& parameters, const at::Tensor& x, at::ScalarType type) const;
  // dy [rows, sum of outs] -> dx [rows, in].
  [[nodiscard]] at::Tensor input_gradient(const ParameterStore& parameters, const at::Tensor& dy) const;
  // Weights' and biases' gradients, now or queued; both tensors must stay as they are until then.
  void weight_gradients(RunContext& context, const at::Tensor& dy, const at::Tensor& x) const;

 private:
  std::vector<int> weights_, biases_;
};

// The gradient buffer of a parameter, for adding to: cleared if this is the step's first write. Undefined if frozen.
at::Tensor gradient_to_add_to(ParameterStore& parameters, int index);

// A parameter's value in fp32, as norms and biases are read.
at::Tensor float_value(const ParameterStore& parameters, int index);

// [sequences, length, features] -> [sequences * length, features].
at::Tensor as_rows(const at::Tensor& x);

// Whether nobody else can see a change of this tensor (segment.h).
bool is_unshared(const at::Tensor& tensor);

// The tensor itself if it may be overwritten, else a copy.
at::Tensor to_overwrite(at::Tensor tensor);

}  // namespace weft::nn
