#include "optim/adamw.h"

#include <cmath>

#include <ATen/ATen.h>

#include "kernel/update.h"

namespace weft::optim {

AdamW::AdamW(const recipe::AdamW& node, std::vector<Group> groups)
    : AdamW(node, groups, std::vector<bool>(groups.size(), true)) {}

AdamW::AdamW(const recipe::AdamW& node, std::vector<Group> groups, const std::vector<bool>& kept)
    : Optimizer(std::move(groups), node.clip),
      beta1_(node.betas.at(0)),
      beta2_(node.betas.at(1)),
      epsilon_(node.epsilon),
      weight_decay_(node.weight_decay) {
  for (size_t group = 0; group < kept.size(); ++group) {
    const at::Tensor& master = this->groups()[group].master;
    averages_.push_back(kept[group] ? at::zeros_like(master) : at::Tensor());
    squares_.push_back(kept[group] ? at::zeros_like(master) : at::Tensor());
  }
}

std::vector<StateTensor> AdamW::state() const {
  std::vector<StateTensor> tensors;
  for (size_t group = 0; group < groups().size(); ++group) {
    if (!averages_[group].defined()) continue;
    for (const Part& part : groups()[group].parts) {
      tensors.push_back({part.path, "exp_avg", averages_[group].narrow(0, part.offset, part.size)});
      tensors.push_back({part.path, "exp_avg_sq", squares_[group].narrow(0, part.offset, part.size)});
    }
  }
  return tensors;
}

void AdamW::update(size_t group, const at::Tensor& gradient, double gradient_scale, double learning_rate) {
  const auto t = static_cast<double>(steps());
  const double decay = weight_decay_ * groups()[group].weight_decay;
  kernel::AdamWStep step{};
  step.gradient_scale = static_cast<float>(gradient_scale);
  step.average_weight = static_cast<float>(1 - beta1_);
  step.square_decay = static_cast<float>(beta2_);
  step.square_weight = static_cast<float>(1 - beta2_);
  step.parameter_decay = static_cast<float>(1 - learning_rate * decay);
  step.step_size = static_cast<float>(learning_rate / (1 - std::pow(beta1_, t)));
  step.square_correction = static_cast<float>(std::sqrt(1 - std::pow(beta2_, t)));
  step.epsilon = static_cast<float>(epsilon_ * groups()[group].epsilon);
  kernel::adamw_update(step, groups()[group].master, gradient, averages_[group], squares_[group]);
}

}  // namespace weft::optim
