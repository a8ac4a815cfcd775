// Muon (kellerjordan.github.io/posts/muon): momentum whose matrices are made orthogonal. docs/optimizers.md.
#pragma once

#include <string>
#include <vector>

#include "optim/adamw.h"
#include "optim/newton_schulz.h"

namespace weft::optim {

// State: momentum_buffer of groups of matrices, as in torch's state_dict; AdamW's of all others.
class Muon : public AdamW {
 public:
  // Parts of groups of matrices are whole (WEFT_CHECK).
  Muon(const recipe::Muon& node, std::vector<Group> groups);

  [[nodiscard]] std::string_view kind() const override { return recipe::Muon::kKind; }
  [[nodiscard]] std::vector<StateTensor> state() const override;

 private:
  void update(size_t group, const at::Tensor& gradient, double gradient_scale, double learning_rate) override;
  // Adds the gradient to the buffer and returns what is to be made orthogonal.
  [[nodiscard]] at::Tensor direction(const at::Tensor& buffer, const at::Tensor& gradient) const;

  recipe::Muon node_;
  std::vector<QuinticStep> steps_;
  std::vector<at::Tensor> buffers_;  // one a group, flat; undefined where AdamW is used
};

}  // namespace weft::optim
