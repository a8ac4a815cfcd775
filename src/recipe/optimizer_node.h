// The [optimizer] section: what changes the parameters. src/optim computes it.
#pragma once

#include <string>
#include <vector>

#include "config/node.h"
#include "model/description.h"

namespace weft::recipe {

struct OptimizerNode : config::Node {
  static const config::KindList& kinds();

  double learning_rate = 1e-3;  // the phases multiply it
  double clip = 1;              // the greatest norm of the whole gradient; 0: never clipped

  // e where a hidden matrix's rate must change as width^e for rates to hold at every width.
  [[nodiscard]] virtual double matrix_rate_exponent() const = 0;
  // The root mean square of what one step at rate 1 adds to a parameter's elements, decay aside
  // (docs/parametrisation.md).
  [[nodiscard]] virtual double update_size(const model::ParameterDescription& parameter) const = 0;

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

  [[nodiscard]] double matrix_rate_exponent() const override { return -1; }
  // sqrt((1 - beta1) / (1 + beta1)): gradients that are noise.
  [[nodiscard]] double update_size(const model::ParameterDescription& parameter) const override;
  void fields(config::FieldList& list) override;
};

// Momentum whose matrices are orthogonalised by five Newton-Schulz steps; parameters that are no hidden matrices learn
// by AdamW, with the settings here.
struct Muon : AdamW {
  WEFT_NODE(Muon, "muon")
  double momentum = 0.95;
  // b = momentum b + g ("sum"), or b = momentum b + (1 - momentum) g ("average").
  std::string convention = "sum";
  bool nesterov = true;
  std::string coefficients = "jordan";  // or "polar_express"
  // Of the orthogonal direction of a matrix (A, B): "adamw" 0.2 sqrt(max(A, B)), "original" sqrt(max(1, A / B)),
  // "spectral" sqrt(A / B).
  std::string scale = "adamw";

  [[nodiscard]] double scale_of(int64_t rows, int64_t columns) const;
  [[nodiscard]] double matrix_rate_exponent() const override { return scale == "adamw" ? -0.5 : 0; }
  // Of an orthogonal direction, whose elements have the root mean square 1 / sqrt(max(A, B)); AdamW's for the rest.
  [[nodiscard]] double update_size(const model::ParameterDescription& parameter) const override;
  void fields(config::FieldList& list) override;
};

// Hidden matrices, those of experts too: what Muon orthogonalises.
[[nodiscard]] bool is_hidden_matrix(const model::ParameterDescription& parameter);

}  // namespace weft::recipe
