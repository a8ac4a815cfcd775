#include "nn/leaves.h"

#include <utility>

#include <ATen/ATen.h>

#include "base/check.h"

namespace weft::nn {
namespace {

using model::SegmentKind;
using model::TensorCut;

// Units or heads of the dim that is cut: [begin, end) of those that the rank holds.
Range held_numbers(const TensorCut& cut, int64_t tensor, int64_t rank) {
  WEFT_CHECK(cut.kind == TensorCut::Kind::kUnits || cut.kind == TensorCut::Kind::kQueryHeads);
  if (cut.kind == TensorCut::Kind::kUnits) return part(kUnits, tensor, rank);
  return held_query_heads(cut.heads, tensor, rank);
}

// The parameter along whose cut dim the segment's sum goes; the bias that is one more leaf, -1: none.
struct Summed {
  int parameter = -1;
  bool bias = false;
};

Summed summed(const model::ModelDescription& model, const model::SegmentDescription& segment, Direction direction) {
  const bool forward = direction == Direction::kForward;
  const std::vector<int>& all = segment.parameters;
  switch (segment.kind) {
    case SegmentKind::kAttention:
      if (forward) return {all.at(0), all.size() > 1};
      return {};
    case SegmentKind::kMlp: {
      if (!forward) return {all.at(0), false};
      const bool bias = model.parameters[static_cast<size_t>(all.back())].shape.size() == 1;
      return {all.at(all.size() - (bias ? 2 : 1)), bias};
    }
    case SegmentKind::kQueryKeyValue:
    case SegmentKind::kLogits:
      if (!forward) return {all.at(0), false};
      return {};
    default:
      return {};
  }
}

std::vector<Range> unit_ranges(int64_t context, int64_t rank) {
  std::vector<Range> ranges;
  for (const int64_t unit : context_units(context, rank)) ranges.push_back({unit, unit + 1});
  return ranges;
}

}  // namespace

std::vector<LeafNode> PartialLeaves::nodes(int64_t rank) const {
  return complete_subtrees(held.at(static_cast<size_t>(rank)));
}

PartialLeaves partial_leaves(const model::ModelDescription& model, const model::SegmentDescription& segment,
                             Direction direction, const Shard& shard) {
  PartialLeaves leaves;
  if (segment.kind == SegmentKind::kAttention && direction == Direction::kBackward) {
    leaves.count = kUnits;
    for (int64_t rank = 0; rank < shard.context; ++rank) leaves.held.push_back(unit_ranges(shard.context, rank));
    return leaves;
  }
  const Summed sum = summed(model, segment, direction);
  if (sum.parameter < 0) return leaves;
  const TensorCut& cut = model.parameters[static_cast<size_t>(sum.parameter)].tensor_cut;
  const int64_t parts = cut_parts(cut);
  leaves.count = parts + (sum.bias ? 1 : 0);
  for (int64_t rank = 0; rank < shard.tensor; ++rank) {
    leaves.held.push_back({held_numbers(cut, shard.tensor, rank)});
    if (sum.bias && rank == 0) leaves.held.back().push_back({parts, parts + 1});
  }
  return leaves;
}

at::Tensor merged(const PartialLeaves& leaves, const Tensors& stacks) {
  WEFT_CHECK(stacks.size() == leaves.held.size());
  TensorSum sum;
  for (size_t rank = 0; rank < stacks.size(); ++rank) {
    const std::vector<LeafNode> nodes = leaves.nodes(static_cast<int64_t>(rank));
    WEFT_CHECK(stacks[rank].size(0) == static_cast<int64_t>(nodes.size()));
    for (size_t i = 0; i < nodes.size(); ++i) sum.add(nodes[i], stacks[rank][static_cast<int64_t>(i)].clone());
  }
  return sum.root(leaves.count);
}

at::Tensor sum_or_stack(TensorSum& sum, int64_t leaves, bool whole) {
  if (whole) return sum.root(leaves);
  return at::stack(std::exchange(sum, TensorSum()).values());
}

int64_t cut_parts(const TensorCut& cut) { return cut.kind == TensorCut::Kind::kQueryHeads ? cut.heads.query : kUnits; }

std::vector<HeldPart> held_parts(const model::ParameterDescription& parameter, const Shard& shard) {
  const TensorCut& cut = parameter.tensor_cut;
  const int64_t size = parameter.shape.at(static_cast<size_t>(cut.dim));
  const int64_t begin = cut.held(size, shard.tensor, shard.tensor_rank).begin;
  const Range numbers = held_numbers(cut, shard.tensor, shard.tensor_rank);
  std::vector<HeldPart> parts;
  for (int64_t number = numbers.begin; number < numbers.end; ++number) {
    const Range elements = part(size, cut_parts(cut), number);
    parts.push_back({number, {elements.begin - begin, elements.end - begin}});
  }
  return parts;
}

Range held_rows(const model::ParameterDescription& parameter, const Shard& shard) {
  const int64_t rows = parameter.shape.at(0);
  if (parameter.tensor_cut.dim != 0) return {0, rows};
  return parameter.tensor_cut.held(rows, shard.tensor, shard.tensor_rank);
}

}  // namespace weft::nn
