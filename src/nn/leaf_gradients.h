// Weight gradients in strict mode: sums over the leaves of a fixed tree, whatever rank, micro-batch or order a leaf
// came from (docs/strict-mode.md). Ranks exchange their nodes; the sums go to the gradient buffers.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <vector>

#include <ATen/core/Tensor.h>

#include "base/leaf_tree.h"

namespace weft::nn {

struct AddTensors {
  at::Tensor operator()(at::Tensor left, const at::Tensor& right) const;  // in place
};
using TensorSum = LeafSum<at::Tensor, AddTensors>;

class LeafGradients {
 public:
  // Of what a sum is the gradient.
  struct Block {
    int parameter = 0;      // in the model's description
    int64_t first_row = 0;  // global rows of the parameter; columns are those that the rank holds
    int64_t end_row = 0;
    uint64_t use = 0;             // xxh64 of the path of the segment: a tied weight has two uses
    int64_t leaves_per_unit = 1;  // leaves of one sample's sequence unit: 1, or heads
    friend auto operator<=>(const Block&, const Block&) = default;
  };
  struct Gradient {
    int parameter = 0;
    int64_t first_row = 0, end_row = 0;
    at::Tensor sum;  // over all leaves and uses: fp32 [end_row - first_row, columns held] or [end_row - first_row]
  };

  // Node 0, leaf for a single leaf. The tensor must be the caller's own; it is added to.
  void add(const Block& block, LeafNode node, at::Tensor value);

  // The nodes so far, blocks in ascending order.
  [[nodiscard]] const std::map<Block, TensorSum>& blocks() const { return blocks_; }

  // The sums over the leaves of `samples` samples, all of which were added, in ascending order of parameter and rows;
  // uses are added in ascending order. Nothing is left.
  [[nodiscard]] std::vector<Gradient> take_sums(int64_t samples);

 private:
  std::map<Block, TensorSum> blocks_;
};

}  // namespace weft::nn
