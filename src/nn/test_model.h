// For tests: small models of every variant, batches, and a walk over all segments of a model.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "model/describe.h"
#include "nn/parameter_store.h"
#include "nn/segment.h"

namespace weft::nn {

struct ModelCase {
  std::string name;
  std::function<void(model::ModelNode&)>
      change;  // of a small Llama with 2 layers, width 24, 4 heads, 2 key/value heads
};
const std::vector<ModelCase>& model_cases();

// A model of a case with random parameters, gains around 1, biases around 0.
struct TestModel {
  explicit TestModel(const ModelCase& model_case, at::ScalarType type = at::kFloat, std::vector<bool> frozen = {});
  model::ModelNode node;
  model::ModelDescription description;
  std::unique_ptr<ParameterStore> parameters;
};

// Tokens, targets (one in seven of them -1), positions and global ids first_sample, first_sample + 1, ...
MicroBatch test_batch(int64_t sequences, int64_t length, int64_t vocabulary, int64_t first_sample = 0);
// The same with two or three documents a sequence; positions start again in each.
MicroBatch with_documents(MicroBatch batch);

// Normal numbers of a named stream, the same in every call.
at::Tensor random_tensor(const std::vector<int64_t>& shape, const std::string& name, double deviation = 1);

RunContext training_context(const MicroBatch& batch, ParameterStore& parameters);

// Forward and backward over all segments. Returns the loss sum; gradients are in the store.
double train_once(const model::ModelDescription& description, const std::vector<std::unique_ptr<Segment>>& segments,
                  RunContext& context);
// Forward alone, up to and with the value of this name; its tensor.
at::Tensor evaluate_value(const model::ModelDescription& description,
                          const std::vector<std::unique_ptr<Segment>>& segments, RunContext& context,
                          const std::string& value);

// |a - b| / |b| over all elements, in double.
double relative_error(const at::Tensor& a, const at::Tensor& b);

}  // namespace weft::nn
