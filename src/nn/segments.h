// The computations of a model's segments, each with a hand-written backward on the kernels of src/kernel.
// docs/segments.md says how to add one.
#pragma once

#include <memory>
#include <vector>

#include "model/description.h"
#include "nn/segment.h"

namespace weft::nn {

// One object a segment of the description, in its order. The description (and the tree it points into) must outlive
// them. Throws Error for a node that has no computation here.
std::vector<std::unique_ptr<Segment>> build_segments(const model::ModelDescription& model);

}  // namespace weft::nn
