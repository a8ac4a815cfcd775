#include "nn/test_model.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "base/hash.h"
#include "base/philox.h"
#include "kernel/random.h"

namespace weft::nn {
namespace {

model::GroupedQueryAttention& attention(model::ModelNode& node) {
  return dynamic_cast<model::GroupedQueryAttention&>(*node.layer.attention);
}

void use_layer_norms(model::ModelNode& node, bool bias) {
  model::LayerNorm norm;
  norm.bias = bias;
  node.layer.attention_norm = norm;
  node.layer.mlp_norm = norm;
  node.final_norm = norm;
}

model::GeluMlp gelu(const std::string& approximation, bool bias) {
  model::GeluMlp mlp;
  mlp.ffn = 40;
  mlp.approximation = approximation;
  mlp.bias = bias;
  return mlp;
}

model::ModelNode small_llama() {
  model::ModelNode node;
  node.vocabulary = 37;
  node.width = 24;
  node.layers = 2;
  auto& grouped = attention(node);
  grouped.heads = 4;
  grouped.kv_heads = 2;
  grouped.head_dim = 6;
  model::SwiGluMlp mlp;
  mlp.ffn = 40;
  node.layer.mlp = mlp;
  return node;
}

void make_gpt2(model::ModelNode& node) {
  use_layer_norms(node, true);
  node.positions = 96;
  node.position = model::LearnedPositions{};
  auto& grouped = attention(node);
  grouped.rope = {};
  grouped.kv_heads = 4;
  grouped.bias = true;
  grouped.output_bias = true;
  node.layer.mlp = gelu("tanh", true);
}

}  // namespace

const std::vector<ModelCase>& model_cases() {
  static const std::vector<ModelCase> cases = {
      {"llama", [](model::ModelNode&) {}},
      {"gpt2", make_gpt2},
      {"nanogpt",
       [](model::ModelNode& node) {
         make_gpt2(node);
         use_layer_norms(node, false);
         attention(node).bias = false;
         attention(node).output_bias = false;
         node.layer.mlp = gelu("erf", false);
       }},
      {"untied_with_biases",
       [](model::ModelNode& node) {
         node.head = model::UntiedHead{};
         attention(node).bias = true;
         dynamic_cast<model::SwiGluMlp&>(*node.layer.mlp).bias = true;
       }},
      {"query_key_norm",
       [](model::ModelNode& node) {
         attention(node).query_key_norm = model::RmsNorm{};
         attention(node).head_dim = 10;
       }},
      {"query_key_layer_norm", [](model::ModelNode& node) { attention(node).query_key_norm = model::LayerNorm{}; }},
      {"window",
       [](model::ModelNode& node) {
         attention(node).window = 5;
         attention(node).kv_heads = 1;
       }},
      {"yarn_and_multipliers",
       [](model::ModelNode& node) {
         model::YarnRope rope;
         rope.factor = 4;
         rope.original_positions = 16;
         attention(node).rope = rope;
         attention(node).scale = 0.3;
         node.embedding.multiplier = 3;
         node.layer.attention_residual.multiplier = 0.5;
         node.layer.mlp_residual.multiplier = 0.25;
         node.head->multiplier = 0.7;
       }},
      {"dropout",
       [](model::ModelNode& node) {
         node.embedding.dropout = 0.1;
         attention(node).dropout = 0.2;
         node.layer.attention_residual.dropout = 0.3;
         node.layer.mlp_residual.dropout = 0.4;
       }},
  };
  return cases;
}

TestModel::TestModel(const ModelCase& model_case, at::ScalarType type, std::vector<bool> frozen) : node(small_llama()) {
  at::set_num_threads(1);
  model_case.change(node);
  description = model::describe(node);
  frozen.resize(description.parameters.size(), false);
  parameters = std::make_unique<ParameterStore>(description, frozen, type, at::Device(at::kCPU));
  for (int index = 0; index < static_cast<int>(parameters->size()); ++index) {
    const at::Tensor& master = parameters->master(index);
    const bool gain =
        description.parameters[static_cast<size_t>(index)].initializer.kind == model::Initializer::Kind::kOnes;
    master.copy_(random_tensor(master.sizes().vec(), parameters->path(index), 0.2));
    if (gain) master.add_(1);
  }
  parameters->refresh_compute_copies();
}

at::Tensor random_tensor(const std::vector<int64_t>& shape, const std::string& name, double deviation) {
  at::Tensor tensor = at::empty(shape, at::kFloat);
  kernel::fill_normal(tensor, random_key(1, RandomPurpose::kParameters, 1, xxh64(name)), 0, deviation);
  return tensor;
}

MicroBatch test_batch(int64_t sequences, int64_t length, int64_t vocabulary, int64_t first_sample) {
  MicroBatch batch;
  batch.tokens = at::empty({sequences, length}, at::kLong);
  batch.targets = at::empty({sequences, length}, at::kLong);
  for (int64_t sequence = 0; sequence < sequences; ++sequence) {
    const int64_t sample = first_sample + sequence;
    const at::Tensor words = kernel::random_words({7, 0}, static_cast<uint64_t>(sample * 2 * length), 2 * length);
    batch.tokens[sequence].copy_(words.narrow(0, 0, length).remainder(vocabulary));
    const at::Tensor others = words.narrow(0, length, length);
    batch.targets[sequence].copy_(at::where(others.remainder(7).eq(0), -1, others.remainder(vocabulary)));
  }
  batch.positions = at::arange(length, at::kLong).expand({sequences, length}).contiguous();
  batch.sample_ids = at::arange(first_sample, first_sample + sequences, at::kLong);
  return batch;
}

MicroBatch with_documents(MicroBatch batch) {
  const int64_t length = batch.tokens.size(1);
  batch.documents = at::zeros_like(batch.tokens);
  for (int64_t sequence = 0; sequence < batch.tokens.size(0); ++sequence) {
    for (const int64_t start : {length / 3 + sequence, length - 2}) {
      batch.documents[sequence].narrow(0, start, length - start).add_(1);
      batch.positions[sequence].narrow(0, start, length - start).copy_(at::arange(length - start, at::kLong));
    }
  }
  return batch;
}

RunContext training_context(const MicroBatch& batch, ParameterStore& parameters) {
  RunContext context;
  context.training = true;
  context.seed = 3;
  context.step = 11;
  context.loss_scale = 0.01;
  context.batch = &batch;
  context.parameters = &parameters;
  return context;
}

double train_once(const model::ModelDescription& description, const std::vector<std::unique_ptr<Segment>>& segments,
                  RunContext& context) {
  Tensors values(description.values.size()), gradients(description.values.size());
  std::vector<Saved> saved(segments.size());
  for (size_t index = 0; index < segments.size(); ++index) {
    Tensors inputs;
    for (const int value : description.segments[index].inputs) inputs.push_back(values[static_cast<size_t>(value)]);
    Tensors outputs = segments[index]->forward(context, inputs, saved[index]);
    for (size_t i = 0; i < outputs.size(); ++i) {
      values[static_cast<size_t>(description.segments[index].outputs[i])] = outputs[i];
    }
  }
  values.clear();
  gradients.back() = at::scalar_tensor(context.loss_scale, at::kFloat);
  for (size_t index = segments.size(); index-- > 0;) {
    Tensors upper;
    for (const int value : description.segments[index].outputs) {
      upper.push_back(std::exchange(gradients[static_cast<size_t>(value)], at::Tensor()));
    }
    const Tensors lower = segments[index]->backward(context, saved[index], std::move(upper));
    saved[index] = {};
    for (size_t i = 0; i < lower.size(); ++i) {
      at::Tensor& sum = gradients[static_cast<size_t>(description.segments[index].inputs[i])];
      sum = sum.defined() ? sum + lower[i] : lower[i];
    }
  }
  return context.metrics.at("loss_sum");
}

at::Tensor evaluate_value(const model::ModelDescription& description,
                          const std::vector<std::unique_ptr<Segment>>& segments, RunContext& context,
                          const std::string& value) {
  Tensors values(description.values.size());
  for (size_t index = 0; index < segments.size(); ++index) {
    Tensors inputs;
    Saved saved;
    for (const int input : description.segments[index].inputs) inputs.push_back(values[static_cast<size_t>(input)]);
    Tensors outputs = segments[index]->forward(context, inputs, saved);
    for (size_t i = 0; i < outputs.size(); ++i) {
      const auto number = static_cast<size_t>(description.segments[index].outputs[i]);
      values[number] = outputs[i];
      if (description.values[number].name == value) return outputs[i];
    }
  }
  return {};
}

double relative_error(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor wide = b.to(at::kDouble);
  const double norm = wide.norm().item<double>();
  const double difference = (a.to(at::kDouble) - wide).norm().item<double>();
  return norm == 0 ? difference : difference / norm;
}

}  // namespace weft::nn
