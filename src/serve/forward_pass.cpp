#include "serve/forward_pass.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include "base/check.h"
#include "nn/segments.h"

namespace weft::serve {

namespace {

// The last segment that reads each value, so that it is freed behind it.
std::vector<size_t> last_readers(const model::ModelDescription& model) {
  std::vector<size_t> last(model.values.size(), 0);
  for (size_t i = 0; i < model.segments.size(); ++i) {
    for (const int value : model.segments[i].inputs) last[static_cast<size_t>(value)] = i;
  }
  return last;
}

}  // namespace

GrowingSequence::GrowingSequence(const model::ModelDescription& model, nn::ParameterStore& parameters)
    : model_(model), parameters_(parameters), segments_(nn::build_segments(model)) {}

void GrowingSequence::clear() {
  cache_.entries.clear();
  length_ = 0;
}

at::Tensor GrowingSequence::append(std::span<const data::TokenId> tokens) {
  WEFT_CHECK(!tokens.empty());
  const c10::NoGradGuard no_gradients;
  const auto count = static_cast<int64_t>(tokens.size());
  const auto device = parameters_.master(0).device();
  auto ids = at::empty({1, count}, at::kLong);
  for (int64_t i = 0; i < count; ++i) ids.data_ptr<int64_t>()[i] = tokens[static_cast<size_t>(i)];
  nn::MicroBatch batch;
  batch.tokens = ids.to(device);
  batch.positions = at::arange(length_, length_ + count, at::TensorOptions(at::kLong).device(device)).unsqueeze(0);
  batch.sample_ids = at::zeros({1}, at::TensorOptions(at::kLong).device(device));
  nn::RunContext context;
  context.batch = &batch;
  context.parameters = &parameters_;
  context.cache = &cache_;

  const auto last = last_readers(model_);
  nn::Tensors values(model_.values.size());
  for (size_t i = 0; i < model_.segments.size(); ++i) {
    const auto& segment = model_.segments[i];
    nn::Tensors inputs;
    for (const int value : segment.inputs) inputs.push_back(values[static_cast<size_t>(value)]);
    const bool logits = segment.kind == model::SegmentKind::kLogits;
    if (logits) inputs[0] = inputs[0].narrow(1, count - 1, 1).contiguous();
    nn::Saved saved;
    auto outputs = segments_[i]->forward(context, inputs, saved);
    if (logits) {
      length_ += count;
      return outputs.at(0).reshape({model_.vocabulary}).to(at::kCPU, at::kFloat);
    }
    for (size_t k = 0; k < outputs.size(); ++k) {
      values[static_cast<size_t>(segment.outputs[k])] = std::move(outputs[k]);
    }
    for (const int value : segment.inputs) {
      if (last[static_cast<size_t>(value)] == i) values[static_cast<size_t>(value)].reset();
    }
  }
  WEFT_CHECK(!"a model has a logits segment");
  return {};
}

}  // namespace weft::serve
