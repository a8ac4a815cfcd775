#include <limits>

#include <ATen/ATen.h>

#include "kernel/cross_entropy.h"
#include "nn/leaves.h"
#include "nn/linear.h"
#include "nn/segment_kinds.h"

namespace weft::nn {
namespace {

// normed -> multiplier * weight normed, in fp32: the softmax of a large vocabulary needs the digits; and the logits'
// statistics, where ranks or units must be combined. Of the vocabulary's rows that the tensor rank holds.
class LogitsSegment : public Segment {
 public:
  LogitsSegment(const model::ModelDescription& model, const model::SegmentDescription& description)
      : node_(node_of<model::HeadNode>(description)),
        weight_(model.parameters.at(static_cast<size_t>(description.parameters.at(0)))),
        product_(model, description.path, {description.parameters.at(0)}, {}) {}

  Tensors forward(RunContext& context, const Tensors& inputs, Saved& saved) override {
    const at::Tensor x = as_rows(inputs[0]);
    if (context.training) saved.tensors = {x};
    const at::Tensor logits = product_.forward(*context.parameters, multiplied(x), at::kFloat);
    const int64_t sequences = inputs[0].size(0), length = inputs[0].size(1);
    at::Tensor statistics = statistics_of(context, logits);
    if (statistics.defined()) statistics = statistics.unflatten(0, {sequences, length});
    return {as_sequences(logits, sequences, length), statistics};
  }

  Tensors backward(RunContext& context, Saved& saved, Tensors output_gradients) override {
    const at::Tensor& x = saved.tensors[0];
    const at::Tensor dlogits = as_rows(output_gradients[0].to(x.scalar_type()));
    product_.weight_gradients(context, dlogits, multiplied(x));
    const at::Tensor dx = product_.partial_input_gradient(context, dlogits, node_.multiplier);
    return {as_sequences(dx, output_gradients[0].size(0), output_gradients[0].size(1))};
  }

 private:
  // The multiplier goes to the smaller factor of the product.
  [[nodiscard]] at::Tensor multiplied(const at::Tensor& x) const {
    return node_.multiplier == 1 ? x : x * node_.multiplier;
  }

  // [rows, 3] of the rank's part, in strict mode [rows, kUnits, 3] (segment.h).
  [[nodiscard]] at::Tensor statistics_of(const RunContext& context, const at::Tensor& logits) const {
    const Shard& shard = context.shard;
    if (shard.tensor == 1 && !shard.strict) return {};
    if (!context.batch->targets.defined()) return {};
    const at::Tensor targets = context.batch->targets.reshape({-1}) - held_rows(weight_, shard).begin;
    if (!shard.strict) return kernel::logit_statistics(logits, targets);
    const at::Tensor units = at::zeros({logits.size(0), kUnits, 3}, logits.options());
    units.select(2, 0).fill_(-std::numeric_limits<double>::infinity());
    for (const HeldPart& unit : held_parts(weight_, shard)) {
      units.select(1, unit.number)
          .copy_(kernel::logit_statistics(logits.narrow(1, unit.local.begin, unit.local.size()),
                                          targets - unit.local.begin));
    }
    return units;
  }

  const model::HeadNode& node_;
  const model::ParameterDescription& weight_;
  Linear product_;
};

}  // namespace

std::unique_ptr<Segment> make_logits_segment(const model::ModelDescription& model,
                                             const model::SegmentDescription& description) {
  return std::make_unique<LogitsSegment>(model, description);
}

}  // namespace weft::nn
