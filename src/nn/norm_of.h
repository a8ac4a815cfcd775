// The norm that a node asks for, on any tensor whose last dim is normalised.
#pragma once

#include <ATen/core/Tensor.h>

#include "kernel/norm.h"
#include "model/nodes.h"
#include "nn/run_context.h"

namespace weft::nn {

class Norm {
 public:
  // `parameters`: weight, [bias]. The node must outlive the norm. Error for a node that is neither RMSNorm nor
  // LayerNorm.
  Norm(const model::NormNode& node, std::vector<int> parameters);

  [[nodiscard]] kernel::NormResult forward(const RunContext& context, const at::Tensor& x) const;
  // Turns dy into dx and adds the parameters' gradients, always at once: they fall out of the same pass.
  void backward(RunContext& context, const at::Tensor& dy, const at::Tensor& x, const at::Tensor& statistics) const;

  // How many of a list of parameters belong to such a norm.
  static size_t parameter_count(const model::NormNode& node);

 private:
  const model::RmsNorm* rms_norm_;
  const model::LayerNorm* layer_norm_;
  std::vector<int> parameters_;
};

}  // namespace weft::nn
