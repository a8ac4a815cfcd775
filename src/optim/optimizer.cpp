#include "optim/optimizer.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/error.h"
#include "optim/adamw.h"
#include "optim/muon.h"

namespace weft::optim {

Optimizer::Optimizer(std::vector<Group> groups, double clip) : groups_(std::move(groups)), clip_(clip) {}

void Optimizer::step(std::span<const at::Tensor> gradients, double gradient_norm,
                     std::span<const double> learning_rates) {
  WEFT_CHECK(gradients.size() == groups_.size() && learning_rates.size() == groups_.size());
  WEFT_CHECK(std::isfinite(gradient_norm));
  const double scale = clip_ > 0 ? std::min(1.0, clip_ / (gradient_norm + 1e-6)) : 1.0;
  ++steps_;
  for (size_t group = 0; group < groups_.size(); ++group) {
    WEFT_CHECK(gradients[group].numel() == groups_[group].master.numel());
    update(group, gradients[group], scale, learning_rates[group]);
  }
}

std::unique_ptr<Optimizer> make_optimizer(const recipe::OptimizerNode& node, std::vector<Group> groups) {
  if (node.kind() == recipe::AdamW::kKind) {
    return std::make_unique<AdamW>(dynamic_cast<const recipe::AdamW&>(node), std::move(groups));
  }
  if (const auto* muon = dynamic_cast<const recipe::Muon*>(&node)) {
    return std::make_unique<Muon>(*muon, std::move(groups));
  }
  throw Error("no computation for the optimizer " + std::string(node.kind()));
}

}  // namespace weft::optim
