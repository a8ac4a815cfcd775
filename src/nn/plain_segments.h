// Every segment in its plainest form: the formulas in ATen operators, gradients by autograd, in any floating type.
// Slow; the reference that the hand-written segments are tested against.
#pragma once

#include <memory>
#include <vector>

#include "model/description.h"
#include "nn/segment.h"

namespace weft::nn {

// As build_segments; values between the segments have `type`. The loss is the fp64 sum whatever the type.
std::vector<std::unique_ptr<Segment>> build_plain_segments(const model::ModelDescription& model, at::ScalarType type);
std::unique_ptr<Segment> make_plain_segment(const model::SegmentDescription& description, at::ScalarType type);

}  // namespace weft::nn
