// The norm that a node asks for, on any tensor whose last dim is normalised.
#pragma once

#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "kernel/norm.h"
#include "model/nodes.h"
#include "nn/run_context.h"

namespace weft::nn {

class Norm {
 public:
  // `parameters`: weight, [bias]; `path` is the segment's. The node must outlive the norm. Error for a node that is
  // neither RMSNorm nor LayerNorm.
  Norm(const model::NormNode& node, const std::string& path, std::vector<int> parameters);

  [[nodiscard]] kernel::NormResult forward(const RunContext& context, const at::Tensor& x) const;
  // Turns dy into dx and adds the parameters' gradients, always at once: they fall out of the same pass.
  void backward(RunContext& context, const at::Tensor& dy, const at::Tensor& x, const at::Tensor& statistics) const;

  // The same for the rows of one leaf of the parameters' gradients, in strict mode: rows are tokens of one unit, and of
  // one head where `leaves_per_unit` is the number of heads.
  void backward_of_leaf(RunContext& context, const at::Tensor& dy, const at::Tensor& x, const at::Tensor& statistics,
                        int64_t leaf, int64_t leaves_per_unit) const;

  // How many of a list of parameters belong to such a norm.
  static size_t parameter_count(const model::NormNode& node);

 private:
  [[nodiscard]] const kernel::NormBackward& kernel_backward() const;

  const model::RmsNorm* rms_norm_;
  const model::LayerNorm* layer_norm_;
  uint64_t use_;
  std::vector<int> parameters_;
};

}  // namespace weft::nn
