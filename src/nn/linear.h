// A linear layer whose weight may be several parameters below each other (query, key and value; gate and up): one
// product serves them all where they lie next to each other.
#pragma once

#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "model/description.h"
#include "nn/run_context.h"

namespace weft::nn {

class Linear {
 public:
  // Indices of parameters: the weights, and either no bias or one a weight. `path` is the segment's. Columns of y
  // (the weights' rows) or of x are what the tensor rank holds, as the parameters' tensor_cut says.
  Linear(const model::ModelDescription& model, const std::string& path, std::vector<int> weights,
         std::vector<int> biases);

  // x [rows, in] -> [rows, sum of outs], in x's type or in `type`.
  [[nodiscard]] at::Tensor forward(const ParameterStore& parameters, const at::Tensor& x) const;
  [[nodiscard]] at::Tensor forward(const ParameterStore& parameters, const at::Tensor& x, at::ScalarType type) const;

  // The same for a weight whose columns are cut, and of which the context's rank computes its part of a sum over the
  // ranks: rank 0 adds the bias. In strict mode with several ranks a stack [nodes, rows, out] (leaves.h).
  [[nodiscard]] at::Tensor partial_forward(const RunContext& context, const at::Tensor& x) const;

  // dy [rows, sum of outs] -> dx [rows, in].
  [[nodiscard]] at::Tensor input_gradient(const ParameterStore& parameters, const at::Tensor& dy) const;

  // factor * the same for weights whose rows are cut: the rank's part of a sum, in strict mode with several ranks a
  // stack [nodes, rows, in].
  [[nodiscard]] at::Tensor partial_input_gradient(const RunContext& context, const at::Tensor& dy,
                                                  double factor = 1) const;

  // Weights' and biases' gradients, now or queued; both tensors must stay as they are until then. Rows are all tokens
  // that the context rank holds; in strict mode each sample's sequence units are leaves.
  void weight_gradients(RunContext& context, const at::Tensor& dy, const at::Tensor& x) const;

 private:
  [[nodiscard]] const model::ParameterDescription& described(int index) const;
  [[nodiscard]] std::vector<LeafGradients::Block> blocks(const RunContext& context) const;
  void add_leaves(RunContext& context, const at::Tensor& dy, const at::Tensor& x) const;

  const model::ModelDescription& model_;
  uint64_t use_;
  std::vector<int> weights_, biases_;
};

// The gradient buffer of a parameter, for adding to: cleared if this is the step's first write. Undefined if frozen.
at::Tensor gradient_to_add_to(ParameterStore& parameters, int index);

// A parameter's value in fp32, as norms and biases are read.
at::Tensor float_value(const ParameterStore& parameters, int index);

// [sequences, length, features] -> [sequences * length, features].
at::Tensor as_rows(const at::Tensor& x);

// [.., sequences * length, features] -> [.., sequences, length, features]; what stands before may be a stack's nodes.
at::Tensor as_sequences(const at::Tensor& rows, int64_t sequences, int64_t length);

// Whether nobody else can see a change of this tensor (segment.h).
bool is_unshared(const at::Tensor& tensor);

// The tensor itself if it may be overwritten, else a copy.
at::Tensor to_overwrite(at::Tensor tensor);

}  // namespace weft::nn
