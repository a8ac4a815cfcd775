// The [optimizer] section: what changes the parameters. src/optim computes it.
#pragma once

#include <vector>

#include "config/node.h"

namespace weft::recipe {

struct OptimizerNode : config::Node {
  static const config::KindList& kinds();

  double learning_rate = 1e-3;  // the phases multiply it
  double clip = 1;              // the greatest norm of the whole gradient; 0: never clipped

  void fields(config::FieldList& list) override;
};

// Adam with decoupled weight decay, as torch.optim.AdamW: p -= rate * (m^ / (sqrt(v^) + epsilon) + weight_decay * p),
// where m^ and v^ are the bias-corrected averages of the gradient and of its square. Decay applies to parameters whose
// description says so (matrices and embeddings; not gains and biases).
struct AdamW : OptimizerNode {
  WEFT_NODE(AdamW, "adamw")
  std::vector<double> betas = {0.9, 0.95};
  double epsilon = 1e-8;
  double weight_decay = 0.1;

  void fields(config::FieldList& list) override;
};

}  // namespace weft::recipe
