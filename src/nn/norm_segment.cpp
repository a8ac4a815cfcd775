#include <ATen/ATen.h>

#include "nn/linear.h"
#include "nn/norm_of.h"
#include "nn/segment_kinds.h"

namespace weft::nn {
namespace {

class NormSegment : public Segment {
 public:
  explicit NormSegment(const model::SegmentDescription& description)
      : norm_(node_of<model::NormNode>(description), description.parameters) {}

  Tensors forward(RunContext& context, const Tensors& inputs, Saved& saved) override {
    const at::Tensor x = inputs[0].contiguous();
    kernel::NormResult result = norm_.forward(context, x);
    if (context.training) saved.tensors = {x, result.statistics};
    return {result.output};
  }

  Tensors backward(RunContext& context, Saved& saved, Tensors output_gradients) override {
    at::Tensor dy = to_overwrite(std::move(output_gradients[0])).contiguous();
    norm_.backward(context, dy, saved.tensors[0], saved.tensors[1]);
    return {dy};
  }

 private:
  Norm norm_;
};

}  // namespace

std::unique_ptr<Segment> make_norm_segment(const model::SegmentDescription& description) {
  return std::make_unique<NormSegment>(description);
}

}  // namespace weft::nn
