#include "nn/leaf_gradients.h"

#include <utility>

#include <ATen/ATen.h>

namespace weft::nn {

at::Tensor AddTensors::operator()(at::Tensor left, const at::Tensor& right) const { return left.add_(right); }

void LeafGradients::add(const Block& block, LeafNode node, at::Tensor value) {
  blocks_[block].add(node, std::move(value));
}

std::vector<LeafGradients::Gradient> LeafGradients::take_sums(int64_t samples) {
  std::vector<Gradient> gradients;
  for (auto& [block, sum] : blocks_) {
    at::Tensor root = sum.root(samples * kUnits * block.leaves_per_unit);
    const bool again = !gradients.empty() && gradients.back().parameter == block.parameter &&
                       gradients.back().first_row == block.first_row && gradients.back().end_row == block.end_row;
    if (again) {
      gradients.back().sum.add_(root);
    } else {
      gradients.push_back({block.parameter, block.first_row, block.end_row, std::move(root)});
    }
  }
  blocks_.clear();
  return gradients;
}

}  // namespace weft::nn
