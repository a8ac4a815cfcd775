// AdamW (arXiv 1711.05101), equal to torch.optim.AdamW up to rounding.
#pragma once

#include <vector>

#include "optim/optimizer.h"

namespace weft::optim {

// State: exp_avg, exp_avg_sq, as in torch's state_dict.
class AdamW : public Optimizer {
 public:
  AdamW(const recipe::AdamW& node, std::vector<Group> groups);

  [[nodiscard]] std::string_view kind() const override { return recipe::AdamW::kKind; }
  [[nodiscard]] std::vector<StateTensor> state() const override;

 protected:
  // For an optimizer that updates some groups otherwise: averages of the `kept` ones alone.
  AdamW(const recipe::AdamW& node, std::vector<Group> groups, const std::vector<bool>& kept);
  void update(size_t group, const at::Tensor& gradient, double gradient_scale, double learning_rate) override;

 private:
  double beta1_, beta2_, epsilon_, weight_decay_;
  std::vector<at::Tensor> averages_, squares_;  // one a group, flat; undefined where not kept
};

}  // namespace weft::optim
