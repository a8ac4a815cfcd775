// One maker a kind of segment; used by build_segments. Model and description must outlive the segment.
#pragma once

#include <memory>

#include "model/description.h"
#include "model/nodes.h"
#include "nn/segment.h"

namespace weft::nn {

std::unique_ptr<Segment> make_embed_segment(const model::ModelDescription& model,
                                            const model::SegmentDescription& description);
std::unique_ptr<Segment> make_norm_segment(const model::ModelDescription& model,
                                           const model::SegmentDescription& description);
std::unique_ptr<Segment> make_query_key_value_segment(const model::ModelDescription& model,
                                                      const model::SegmentDescription& description);
std::unique_ptr<Segment> make_attention_segment(const model::ModelDescription& model,
                                                const model::SegmentDescription& description);
std::unique_ptr<Segment> make_residual_segment(const model::ModelDescription& model,
                                               const model::SegmentDescription& description);
std::unique_ptr<Segment> make_mlp_segment(const model::ModelDescription& model,
                                          const model::SegmentDescription& description);
std::unique_ptr<Segment> make_logits_segment(const model::ModelDescription& model,
                                             const model::SegmentDescription& description);
std::unique_ptr<Segment> make_loss_segment(const model::ModelDescription& model,
                                           const model::SegmentDescription& description);

[[noreturn]] void no_computation(const model::SegmentDescription& description);

// The description's node as the type that the segment computes; Error naming path and kind if it is another.
template <typename Node>
const Node& node_of(const model::SegmentDescription& description) {
  const auto* node = dynamic_cast<const Node*>(description.node);
  if (node == nullptr) no_computation(description);
  return *node;
}

}  // namespace weft::nn
