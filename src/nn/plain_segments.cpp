#include "nn/plain_segments.h"

#include <limits>

#include <ATen/ATen.h>

#include "base/check.h"
#include "base/hash.h"
#include "nn/autograd_segment.h"
#include "nn/dropout_of_step.h"
#include "nn/segment_kinds.h"

namespace weft::nn {
namespace {

using model::SegmentDescription;

at::Tensor norm(const model::NormNode& node, const at::Tensor& x, const Tensors& parameters, size_t first) {
  if (const auto* rms = dynamic_cast<const model::RmsNorm*>(&node)) {
    return x * (x * x).mean({-1}, true).add(rms->epsilon).rsqrt() * parameters.at(first);
  }
  const auto& layer = dynamic_cast<const model::LayerNorm&>(node);
  const at::Tensor centred = x - x.mean({-1}, true);
  const at::Tensor normalised = centred * (centred * centred).mean({-1}, true).add(layer.epsilon).rsqrt();
  const at::Tensor scaled = normalised * parameters.at(first);
  return layer.bias ? scaled + parameters.at(first + 1) : scaled;
}

at::Tensor dropped(const at::Tensor& x, const RunContext& context, double probability, const std::string& path) {
  const kernel::Dropout dropout = dropout_of_step(context, probability, xxh64(path));
  if (!dropout.enabled()) return x;
  const at::Tensor factors = kernel::dropout_factors(dropout, x.size(1), x.numel() / (x.size(0) * x.size(1)));
  return x * factors.view(x.sizes()).to(x.scalar_type());
}

class PlainSegment : public AutogradSegment {
 public:
  PlainSegment(const SegmentDescription& description, at::ScalarType type)
      : AutogradSegment(description.parameters, type), description_(description) {}

 protected:
  const SegmentDescription& description_;
};

class PlainEmbed : public PlainSegment {
 public:
  using PlainSegment::PlainSegment;
  Tensors compute(RunContext& context, const Tensors&, const Tensors& parameters) override {
    const auto& node = node_of<model::ModelNode>(description_);
    at::Tensor x = at::embedding(parameters[0], context.batch->tokens) * node.embedding.multiplier;
    if (parameters.size() > 1) x = x + at::embedding(parameters[1], context.batch->positions);
    return {dropped(x, context, node.embedding.dropout, description_.path)};
  }
};

class PlainNorm : public PlainSegment {
 public:
  using PlainSegment::PlainSegment;
  Tensors compute(RunContext&, const Tensors& inputs, const Tensors& parameters) override {
    return {norm(node_of<model::NormNode>(description_), inputs[0], parameters, 0)};
  }
};

class PlainQueryKeyValue : public PlainSegment {
 public:
  using PlainSegment::PlainSegment;
  Tensors compute(RunContext& context, const Tensors& inputs, const Tensors& parameters) override {
    const auto& node = node_of<model::GroupedQueryAttention>(description_);
    Tensors outputs;
    for (size_t part = 0; part < 3; ++part) {
      const std::optional<at::Tensor> bias = node.bias ? std::optional(parameters[3 + part]) : std::nullopt;
      const at::Tensor features = at::linear(inputs[0], parameters[part], bias);
      outputs.push_back(features.unflatten(2, {-1, node.head_dim.get()}));
    }
    if (node.query_key_norm) {
      const size_t first = node.bias ? 6 : 3;
      const size_t each = (parameters.size() - first) / 2;
      outputs[0] = norm(*node.query_key_norm, outputs[0], parameters, first);
      outputs[1] = norm(*node.query_key_norm, outputs[1], parameters, first + each);
    }
    if (node.rope) {
      outputs[0] = rotated(*node.rope, outputs[0], context.batch->positions);
      outputs[1] = rotated(*node.rope, outputs[1], context.batch->positions);
    }
    return outputs;
  }

 private:
  static at::Tensor rotated(const model::RopeNode& rope, const at::Tensor& x, const at::Tensor& positions) {
    const model::RopeFrequencies frequencies = rope.frequencies(x.size(3));
    const at::Tensor inverse = at::tensor(at::ArrayRef<double>(frequencies.inverse), at::kDouble);
    const at::Tensor angle = positions.to(at::kDouble).unsqueeze(-1).unsqueeze(-1) * inverse;
    const at::Tensor cosine = (angle.cos() * frequencies.attention_factor).to(x.scalar_type());
    const at::Tensor sine = (angle.sin() * frequencies.attention_factor).to(x.scalar_type());
    const Tensors halves = x.chunk(2, 3);
    return at::cat({halves[0] * cosine - halves[1] * sine, halves[1] * cosine + halves[0] * sine}, 3);
  }
};

class PlainAttention : public PlainSegment {
 public:
  using PlainSegment::PlainSegment;
  Tensors compute(RunContext& context, const Tensors& inputs, const Tensors& parameters) override {
    const auto& node = node_of<model::GroupedQueryAttention>(description_);
    const int64_t group = node.heads / node.kv_heads;
    const at::Tensor query = inputs[0].transpose(1, 2);
    const at::Tensor key = inputs[1].transpose(1, 2).repeat_interleave(group, 1);
    const at::Tensor value = inputs[2].transpose(1, 2).repeat_interleave(group, 1);
    const at::Tensor unseen = visible(node, *context.batch, query.size(2)).logical_not();
    const at::Tensor scores = (at::matmul(query, key.transpose(2, 3)) * node.effective_scale())
                                  .masked_fill(unseen, -std::numeric_limits<double>::infinity());
    const at::Tensor probabilities = at::softmax(scores, 3).transpose(1, 2);
    const at::Tensor mixed = dropped(probabilities, context, node.dropout, description_.path).transpose(1, 2);
    const at::Tensor mixture = at::matmul(mixed, value).transpose(1, 2).flatten(2);
    const std::optional<at::Tensor> bias = node.output_bias ? std::optional(parameters[1]) : std::nullopt;
    return {at::linear(mixture, parameters[0], bias)};
  }

 private:
  static at::Tensor visible(const model::GroupedQueryAttention& node, const MicroBatch& batch, int64_t length) {
    const at::Tensor key = at::arange(length, at::kLong);
    const at::Tensor query = key.unsqueeze(1);
    at::Tensor seen = key.le(query);
    if (node.window > 0) seen = seen.logical_and((query - key).lt(node.window));
    seen = seen.unsqueeze(0).unsqueeze(0);
    if (!batch.documents.defined()) return seen;
    return seen.logical_and(batch.documents.unsqueeze(1).eq(batch.documents.unsqueeze(2)).unsqueeze(1));
  }
};

class PlainResidual : public PlainSegment {
 public:
  using PlainSegment::PlainSegment;
  Tensors compute(RunContext& context, const Tensors& inputs, const Tensors&) override {
    const auto& node = node_of<model::ResidualNode>(description_);
    return {inputs[0] + dropped(inputs[1], context, node.dropout, description_.path) * node.multiplier};
  }
};

class PlainMlp : public PlainSegment {
 public:
  using PlainSegment::PlainSegment;
  Tensors compute(RunContext&, const Tensors& inputs, const Tensors& parameters) override {
    const auto part = [&](const at::Tensor& x, size_t weight, bool bias, size_t bias_place) {
      return at::linear(x, parameters[weight], bias ? std::optional(parameters[bias_place]) : std::nullopt);
    };
    if (const auto* swiglu = dynamic_cast<const model::SwiGluMlp*>(description_.node)) {
      const bool bias = swiglu->bias;
      const at::Tensor gate = part(inputs[0], 0, bias, 2);
      return {part(gate * at::sigmoid(gate) * part(inputs[0], 1, bias, 3), bias ? 4 : 2, bias, 5)};
    }
    const auto& gelu = node_of<model::GeluMlp>(description_);
    const at::Tensor before = part(inputs[0], 0, gelu.bias, 1);
    return {part(at::gelu(before, gelu.approximation == "tanh" ? "tanh" : "none"), gelu.bias ? 2 : 1, gelu.bias, 3)};
  }
};

class PlainLogits : public PlainSegment {
 public:
  using PlainSegment::PlainSegment;
  Tensors compute(RunContext&, const Tensors& inputs, const Tensors& parameters) override {
    return {at::linear(inputs[0], parameters[0]) * node_of<model::HeadNode>(description_).multiplier, at::Tensor()};
  }
};

class PlainLoss : public PlainSegment {
 public:
  using PlainSegment::PlainSegment;
  Tensors compute(RunContext& context, const Tensors& inputs, const Tensors&) override {
    const at::Tensor logits = inputs[0].flatten(0, 1).to(at::kDouble);
    at::Tensor loss =
        at::cross_entropy_loss(logits, context.batch->targets.flatten(), {}, at::Reduction::Sum, /*ignore_index=*/-1);
    context.metrics["loss_sum"] += loss.item<double>();
    return {loss};
  }
};

}  // namespace

std::unique_ptr<Segment> make_plain_segment(const SegmentDescription& description, at::ScalarType type) {
  switch (description.kind) {
    case model::SegmentKind::kEmbed:
      return std::make_unique<PlainEmbed>(description, type);
    case model::SegmentKind::kNorm:
      return std::make_unique<PlainNorm>(description, type);
    case model::SegmentKind::kQueryKeyValue:
      return std::make_unique<PlainQueryKeyValue>(description, type);
    case model::SegmentKind::kAttention:
      return std::make_unique<PlainAttention>(description, type);
    case model::SegmentKind::kResidual:
      return std::make_unique<PlainResidual>(description, type);
    case model::SegmentKind::kMlp:
      return std::make_unique<PlainMlp>(description, type);
    case model::SegmentKind::kLogits:
      return std::make_unique<PlainLogits>(description, type);
    case model::SegmentKind::kLoss:
      return std::make_unique<PlainLoss>(description, type);
  }
  no_computation(description);
}

std::vector<std::unique_ptr<Segment>> build_plain_segments(const model::ModelDescription& model, at::ScalarType type) {
  std::vector<std::unique_ptr<Segment>> segments;
  for (const SegmentDescription& description : model.segments)
    segments.push_back(make_plain_segment(description, type));
  return segments;
}

}  // namespace weft::nn
