#include "schedule/layout.h"

#include "base/check.h"

namespace weft::schedule {
namespace {

using mesh::Placement;
using mesh::PlacementKind;

constexpr Placement kPartial{PlacementKind::kPartial, -1};
constexpr Placement kReplicate{PlacementKind::kReplicate, -1};
constexpr Placement kInvariant{PlacementKind::kInvariant, -1};
constexpr Placement kSequencePart{PlacementKind::kShard, 1};

ValueLayout of_output(model::SegmentKind kind, size_t output, const Layout& layout) {
  using Axis = ValueLayout::Axis;
  const Placement stream = layout.sequence ? kSequencePart : kInvariant;
  switch (kind) {
    case model::SegmentKind::kEmbed:
    case model::SegmentKind::kAttention:
    case model::SegmentKind::kMlp:
      if (layout.tensor > 1) return {Axis::kTensor, kPartial, stream};
      return {};
    case model::SegmentKind::kNorm:
      if (layout.tensor > 1) return {Axis::kTensor, stream, kReplicate};
      return {};
    case model::SegmentKind::kQueryKeyValue:
      if (layout.context > 1 && output > 0) return {Axis::kContext, kSequencePart, kReplicate};
      return {};
    case model::SegmentKind::kLogits:
      if (layout.tensor > 1 && output == 1) return {Axis::kTensor, {PlacementKind::kShard, 0}, kReplicate, false};
      return {};
    case model::SegmentKind::kResidual:
    case model::SegmentKind::kLoss:
      return {};
  }
  WEFT_CHECK(false);
}

}  // namespace

mesh::Mesh Layout::mesh() const {
  const auto size = [](int64_t degree) { return static_cast<int32_t>(degree); };
  return {
      {{"pp", size(pipeline)}, {"dp", size(data)}, {"fsdp", size(fsdp)}, {"cp", size(context)}, {"tp", size(tensor)}}};
}

// Every rank already holds what a Replicate reader of an Invariant value needs.
bool ValueLayout::moves_forward() const {
  return axis != Axis::kNone && !(made.kind == PlacementKind::kInvariant && read.kind == PlacementKind::kReplicate);
}

bool ValueLayout::moves_backward() const {
  if (axis == Axis::kNone || !has_gradient) return false;
  const Placement arrives = mesh::gradient_placement(read);
  const Placement wanted = mesh::gradient_placement(made);
  return !(arrives.kind == PlacementKind::kInvariant && wanted.kind == PlacementKind::kReplicate);
}

std::vector<ValueLayout> value_layouts(const model::ModelDescription& model, const Layout& layout) {
  std::vector<ValueLayout> layouts(model.values.size());
  for (const model::SegmentDescription& segment : model.segments) {
    for (size_t output = 0; output < segment.outputs.size(); ++output) {
      layouts[static_cast<size_t>(segment.outputs[output])] = of_output(segment.kind, output, layout);
    }
  }
  return layouts;
}

std::vector<bool> partial_over_tensor(const model::ModelDescription& model, const Layout& layout) {
  std::vector<bool> partial(model.parameters.size(), false);
  if (layout.tensor == 1) return partial;
  for (const model::SegmentDescription& segment : model.segments) {
    for (const int index : segment.parameters) {
      const model::TensorCut& cut = model.parameters[static_cast<size_t>(index)].tensor_cut;
      const bool whole = cut.kind == model::TensorCut::Kind::kWhole;
      const bool of_heads = segment.kind == model::SegmentKind::kQueryKeyValue;
      const bool of_a_norm = segment.kind == model::SegmentKind::kNorm;
      const bool shared_heads =
          cut.kind == model::TensorCut::Kind::kKeyValueHeads && layout.tensor > cut.heads.key_value;
      if ((whole && (of_heads || (of_a_norm && layout.sequence))) || shared_heads) {
        partial[static_cast<size_t>(index)] = true;
      }
    }
  }
  return partial;
}

}  // namespace weft::schedule
