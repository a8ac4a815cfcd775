// Strict mode: which leaves the sums have that a layout may cut between segments, and how a segment hands its part of
// such a sum on (docs/strict-mode.md). Sums over ranks that all hold one leaf at most need none of this.
#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "model/description.h"
#include "nn/leaf_gradients.h"
#include "nn/segment.h"
#include "nn/shard.h"

namespace weft::nn {

enum class Direction { kForward, kBackward };

// A sum's leaves 0 to count - 1, and those that each rank of its axis holds, as ascending ranges. count 0: the segment
// returns no such sum in this direction.
struct PartialLeaves {
  int64_t count = 0;
  std::vector<std::vector<Range>> held;  // by rank
  // The nodes that a rank's stack consists of, in order.
  [[nodiscard]] std::vector<LeafNode> nodes(int64_t rank) const;
};

// Of what a segment returns in strict mode. Over the tensor ranks: the output of attention and mlp (kForward), the
// gradient of the input of query_key_value, mlp and logits (kBackward). Over the context ranks: the gradients of
// attention's key and value (kBackward). With one rank on that axis the segment returns the sum itself, with more a
// stack [nodes, ...] of its complete subtrees.
[[nodiscard]] PartialLeaves partial_leaves(const model::ModelDescription& model,
                                           const model::SegmentDescription& segment, Direction direction,
                                           const Shard& shard);

// The sum of all ranks' stacks, given in the order of the ranks.
[[nodiscard]] at::Tensor merged(const PartialLeaves& leaves, const Tensors& stacks);

// The sum where this rank holds all leaves, else the stack. Takes what was added.
[[nodiscard]] at::Tensor sum_or_stack(TensorSum& sum, int64_t leaves, bool whole);

// A unit or head of a cut dim that the rank holds.
struct HeldPart {
  int64_t number = 0;  // in the model
  Range local;         // elements of the dim, as the rank stores it
};
// Of a dim of units or query heads.
[[nodiscard]] std::vector<HeldPart> held_parts(const model::ParameterDescription& parameter, const Shard& shard);

// How many units or query heads the cut dim has.
[[nodiscard]] int64_t cut_parts(const model::TensorCut& cut);

// The rows of a parameter that the rank holds; all where another dim is cut.
[[nodiscard]] Range held_rows(const model::ParameterDescription& parameter, const Shard& shard);

}  // namespace weft::nn
