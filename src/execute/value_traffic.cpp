#include "execute/value_traffic.h"

#include <utility>

#include <ATen/ATen.h>

#include "base/check.h"
#include "tensor/collectives.h"

namespace weft::execute {
namespace {

using mesh::Placement;
using mesh::PlacementKind;
using schedule::ValueLayout;

constexpr int64_t kSequenceDim = 1;

int64_t tokens_of(const std::vector<int64_t>& units, int64_t length) {
  int64_t tokens = 0;
  for (const int64_t unit : units) tokens += part(length, kUnits, unit).size();
  return tokens;
}

at::Tensor indices(const std::vector<int64_t>& numbers, at::Device device) {
  return at::tensor(at::ArrayRef<int64_t>(numbers), at::kLong).to(device);
}

std::vector<int64_t> inverse(const std::vector<int64_t>& places) {
  std::vector<int64_t> result(places.size());
  for (size_t i = 0; i < places.size(); ++i) result[static_cast<size_t>(places[i])] = static_cast<int64_t>(i);
  return result;
}

}  // namespace

ValueTraffic::ValueTraffic(const model::ModelDescription& model, Ranks& ranks)
    : model_(model),
      ranks_(ranks),
      layouts_(schedule::value_layouts(model, ranks.layout())),
      makers_(model.values.size()),
      readers_(model.values.size()) {
  for (const model::SegmentDescription& segment : model.segments) {
    for (const int value : segment.outputs) makers_[static_cast<size_t>(value)] = &segment;
    for (const int value : segment.inputs) readers_[static_cast<size_t>(value)] = &segment;
  }
}

const ValueLayout& ValueTraffic::layout(const Place& place) const { return layouts_[static_cast<size_t>(place.value)]; }

comm::Communicator& ValueTraffic::group(const Place& place) const {
  return layout(place).axis == ValueLayout::Axis::kTensor ? ranks_.tensor() : ranks_.context();
}

std::string ValueTraffic::what(const Place& place) const {
  const std::string& name = model_.values[static_cast<size_t>(place.value)].name;
  return place.direction == nn::Direction::kForward ? name : "gradient of " + name;
}

nn::PartialLeaves ValueTraffic::leaves(const Place& place) const {
  if (!place.context->shard.strict) return {};
  const auto& ends = place.direction == nn::Direction::kForward ? makers_ : readers_;
  return nn::partial_leaves(model_, *ends[static_cast<size_t>(place.value)], place.direction, place.context->shard);
}

std::vector<int64_t> ValueTraffic::token_counts(const Place& place) const {
  const int64_t length = place.context->batch->whole_length();
  nn::Shard shard = place.context->shard;
  std::vector<int64_t> counts;
  for (int64_t rank = 0; rank < group(place).size(); ++rank) {
    if (layout(place).axis == ValueLayout::Axis::kContext) {
      counts.push_back(tokens_of(nn::context_units(shard.context, rank), length));
    } else {
      shard.tensor_rank = rank;
      counts.push_back(tokens_of(nn::sequence_units(shard), length));
    }
  }
  return counts;
}

std::vector<int64_t> ValueTraffic::token_places(const Place& place) const {
  const int64_t length = place.context->batch->whole_length();
  std::vector<int64_t> places;
  for (int64_t rank = 0; rank < place.context->shard.context; ++rank) {
    for (const int64_t unit : nn::context_units(place.context->shard.context, rank)) {
      const Range tokens = part(length, kUnits, unit);
      for (int64_t token = tokens.begin; token < tokens.end; ++token) places.push_back(token);
    }
  }
  return places;
}

at::Tensor ValueTraffic::move(int value, nn::Direction direction, at::Tensor tensor, const nn::RunContext& context) {
  const Place place{value, direction, &context};
  const bool forward = direction == nn::Direction::kForward;
  const ValueLayout& moved = layout(place);
  if (!moved.has_gradient) return gather_statistics(place, tensor);
  const Placement from = forward ? moved.made : mesh::gradient_placement(moved.read);
  const Placement to = forward ? moved.read : mesh::gradient_placement(moved.made);
  if (from.kind == PlacementKind::kShard) return gather(place, tensor);
  WEFT_CHECK(from.kind == PlacementKind::kPartial);
  if (const nn::PartialLeaves held = leaves(place); held.count > 0) {
    const at::Tensor whole = merge(place, held, tensor);
    return to.kind == PlacementKind::kShard ? own_tokens(place, whole) : whole;
  }
  return to.kind == PlacementKind::kShard ? sum_and_scatter(place, tensor) : sum(place, std::move(tensor));
}

at::Tensor ValueTraffic::gather(const Place& place, const at::Tensor& tensor) const {
  const at::Tensor all = tensor::all_gather_dim(tensor, kSequenceDim, token_counts(place), group(place), what(place));
  if (layout(place).axis == ValueLayout::Axis::kTensor) return all;
  return all.index_select(kSequenceDim, indices(inverse(token_places(place)), all.device()));
}

// [...] of each rank -> [ranks, ...].
at::Tensor ValueTraffic::gather_statistics(const Place& place, const at::Tensor& tensor) const {
  const std::vector<int64_t> ones(static_cast<size_t>(group(place).size()), 1);
  return tensor::all_gather_dim(tensor.unsqueeze(0), 0, ones, group(place), what(place));
}

at::Tensor ValueTraffic::sum(const Place& place, at::Tensor tensor) const {
  at::Tensor result = tensor.contiguous();
  if (result.is_same(tensor) && (tensor.use_count() > 2 || tensor.storage().use_count() > 1)) result = tensor.clone();
  tensor::all_reduce_(result, group(place), comm::Reduction::kSum, what(place));
  return result;
}

at::Tensor ValueTraffic::sum_and_scatter(const Place& place, const at::Tensor& tensor) const {
  const bool context = layout(place).axis == ValueLayout::Axis::kContext;
  const at::Tensor in_order =
      context ? tensor.index_select(kSequenceDim, indices(token_places(place), tensor.device())) : tensor;
  return tensor::reduce_scatter_dim(in_order, kSequenceDim, token_counts(place), group(place), what(place));
}

at::Tensor ValueTraffic::own_tokens(const Place& place, const at::Tensor& whole) const {
  const bool context = layout(place).axis == ValueLayout::Axis::kContext;
  const at::Tensor in_order =
      context ? whole.index_select(kSequenceDim, indices(token_places(place), whole.device())) : whole;
  const std::vector<int64_t> counts = token_counts(place);
  int64_t begin = 0;
  for (int rank = 0; rank < group(place).rank(); ++rank) begin += counts[static_cast<size_t>(rank)];
  return in_order.narrow(kSequenceDim, begin, counts[static_cast<size_t>(group(place).rank())]).contiguous();
}

at::Tensor ValueTraffic::merge(const Place& place, const nn::PartialLeaves& held, const at::Tensor& stack) const {
  std::vector<int64_t> counts;
  for (int64_t rank = 0; rank < group(place).size(); ++rank) {
    counts.push_back(static_cast<int64_t>(held.nodes(rank).size()));
  }
  const at::Tensor all = tensor::all_gather_dim(stack, 0, counts, group(place), what(place));
  return nn::merged(held, all.split_with_sizes(counts, 0));
}

}  // namespace weft::execute
