#include "nn/segments.h"

#include <string>

#include "base/error.h"
#include "model/describe.h"
#include "nn/segment_kinds.h"

namespace weft::nn {
namespace {

std::unique_ptr<Segment> make_segment(const model::ModelDescription& model,
                                      const model::SegmentDescription& description) {
  switch (description.kind) {
    case model::SegmentKind::kEmbed:
      return make_embed_segment(model, description);
    case model::SegmentKind::kNorm:
      return make_norm_segment(model, description);
    case model::SegmentKind::kQueryKeyValue:
      return make_query_key_value_segment(model, description);
    case model::SegmentKind::kAttention:
      return make_attention_segment(model, description);
    case model::SegmentKind::kResidual:
      return make_residual_segment(model, description);
    case model::SegmentKind::kMlp:
      return make_mlp_segment(model, description);
    case model::SegmentKind::kLogits:
      return make_logits_segment(model, description);
    case model::SegmentKind::kLoss:
      return make_loss_segment(model, description);
  }
  no_computation(description);
}

}  // namespace

void no_computation(const model::SegmentDescription& description) {
  const std::string node = description.node != nullptr ? std::string(description.node->kind()) : "none";
  throw Error("no computation for segment " + description.path + " of kind " +
              std::string(model::segment_kind_name(description.kind)) + " with node " + node);
}

std::vector<std::unique_ptr<Segment>> build_segments(const model::ModelDescription& model) {
  std::vector<std::unique_ptr<Segment>> segments;
  segments.reserve(model.segments.size());
  for (const model::SegmentDescription& description : model.segments)
    segments.push_back(make_segment(model, description));
  return segments;
}

}  // namespace weft::nn
