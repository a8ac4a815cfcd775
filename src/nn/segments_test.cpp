#include "nn/segments.h"

#include <algorithm>
#include <cmath>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "nn/plain_segments.h"
#include "nn/test_model.h"

namespace weft::nn {
namespace {

constexpr int64_t kSequences = 3;
constexpr int64_t kLength = 70;  // more than a block of attention, and no multiple of anything

struct Outcome {
  Tensors outputs, input_gradients, parameter_gradients;
};

// One segment alone, forward and backward, with given inputs and output gradients.
Outcome run(Segment& segment, const model::SegmentDescription& description, ParameterStore& parameters,
            const MicroBatch& batch, const Tensors& inputs, const Tensors& output_gradients) {
  RunContext context = training_context(batch, parameters);
  parameters.begin_step();
  Saved saved;
  Outcome outcome;
  outcome.outputs = segment.forward(context, inputs, saved);
  if (description.kind == model::SegmentKind::kLoss) outcome.outputs[0] = outcome.outputs[0].clone();
  for (const at::Tensor& output : outcome.outputs) {
    outcome.parameter_gradients.push_back(output.defined() ? output.clone() : output);
  }
  std::swap(outcome.outputs, outcome.parameter_gradients);
  outcome.parameter_gradients.clear();
  Tensors upper;
  for (const at::Tensor& gradient : output_gradients) {
    upper.push_back(gradient.defined() ? gradient.clone() : gradient);
  }
  outcome.input_gradients = segment.backward(context, saved, std::move(upper));
  for (const int index : description.parameters)
    outcome.parameter_gradients.push_back(parameters.gradient(index).clone());
  return outcome;
}

void compare(const Tensors& got, const Tensors& wanted, double tolerance, const std::string& what) {
  ASSERT_EQ(got.size(), wanted.size());
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(got[i].defined(), wanted[i].defined()) << what << " " << i;
    if (!got[i].defined()) continue;  // the statistics of logits
    EXPECT_EQ(got[i].sizes(), wanted[i].sizes()) << what << " " << i;
    EXPECT_LT(relative_error(got[i], wanted[i]), tolerance) << what << " " << i;
  }
}

// The value that one rank leaves undefined.
bool is_statistics(const TestModel& model, int value) {
  return model.description.values[static_cast<size_t>(value)].name == "head.statistics";
}

// Every segment of a model in `type` against the plain one in double.
void compare_segments(TestModel& model, const MicroBatch& batch, at::ScalarType type, double tolerance) {
  const auto segments = build_segments(model.description);
  for (size_t index = 0; index < segments.size(); ++index) {
    const model::SegmentDescription& description = model.description.segments[index];
    SCOPED_TRACE(description.path);
    const bool loss = description.kind == model::SegmentKind::kLoss;
    Tensors inputs, output_gradients, plain_inputs, plain_gradients;
    const auto shape = [&](int value) {
      std::vector<int64_t> sizes = {batch.tokens.size(0), batch.tokens.size(1)};
      const auto& trailing = model.description.values[static_cast<size_t>(value)].trailing;
      sizes.insert(sizes.end(), trailing.begin(), trailing.end());
      return sizes;
    };
    for (const int value : description.inputs) {
      if (is_statistics(model, value)) {
        inputs.emplace_back();
        plain_inputs.emplace_back();
        continue;
      }
      const at::Tensor x = random_tensor(shape(value), "input" + std::to_string(value));
      inputs.push_back(loss ? x : x.to(type));
      plain_inputs.push_back(inputs.back().to(at::kDouble));
    }
    for (const int value : description.outputs) {
      if (is_statistics(model, value)) {
        output_gradients.emplace_back();
        plain_gradients.emplace_back();
        continue;
      }
      const at::Tensor gradient = loss ? at::scalar_tensor(0.01, at::kFloat)
                                       : random_tensor(shape(value), "gradient" + std::to_string(value)).to(type);
      output_gradients.push_back(gradient);
      plain_gradients.push_back(gradient.to(at::kDouble));
    }
    const auto plain_segment = make_plain_segment(description, at::kDouble);
    const Outcome plain = run(*plain_segment, description, *model.parameters, batch, plain_inputs, plain_gradients);
    const Outcome got = run(*segments[index], description, *model.parameters, batch, inputs, output_gradients);
    compare(got.outputs, plain.outputs, tolerance, "output");
    compare(got.input_gradients, plain.input_gradients, tolerance, "input gradient");
    compare(got.parameter_gradients, plain.parameter_gradients, tolerance, "parameter gradient");
  }
}

Tensors all_gradients(ParameterStore& parameters) {
  Tensors gradients;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const at::Tensor gradient = parameters.gradient(static_cast<int>(i));
    gradients.push_back(gradient.defined() ? gradient.clone() : gradient);
  }
  return gradients;
}

// Relative to the gradient, or to a twentieth of the whole model's where most of it cancels (a key's bias): rounding is
// as large as what was added.
void compare_gradients(ParameterStore& parameters, const Tensors& wanted, double tolerance) {
  double squares = 0;
  for (const at::Tensor& each : wanted) squares += each.to(at::kDouble).square().sum().item<double>();
  for (size_t i = 0; i < wanted.size(); ++i) {
    const at::Tensor got = parameters.gradient(static_cast<int>(i));
    if (!got.defined()) continue;
    const double norm = std::max(wanted[i].to(at::kDouble).norm().item<double>(), 5e-2 * std::sqrt(squares));
    const double difference = (got.to(at::kDouble) - wanted[i].to(at::kDouble)).norm().item<double>();
    EXPECT_LT(difference / norm, tolerance) << parameters.path(static_cast<int>(i));
  }
}

class SegmentsOfModel : public ::testing::TestWithParam<size_t> {
 protected:
  const ModelCase& model_case() const { return model_cases()[GetParam()]; }
};

TEST_P(SegmentsOfModel, EqualThePlainOnes) {
  TestModel model(model_case());
  compare_segments(model, test_batch(kSequences, kLength, model.description.vocabulary), at::kFloat, 1e-6);
}

TEST_P(SegmentsOfModel, EqualThePlainOnesWithDocuments) {
  TestModel model(model_case());
  compare_segments(model, with_documents(test_batch(kSequences, kLength, model.description.vocabulary)), at::kFloat,
                   1e-6);
}

TEST_P(SegmentsOfModel, InBFloat16AreWithinItsRounding) {
  TestModel model(model_case(), at::kBFloat16);
  compare_segments(model, test_batch(kSequences, kLength, model.description.vocabulary), at::kBFloat16, 1e-2);
}

// The whole model: the loss and every gradient.
TEST_P(SegmentsOfModel, MakeTheModel) {
  TestModel model(model_case());
  const MicroBatch batch = with_documents(test_batch(kSequences, kLength, model.description.vocabulary));
  RunContext plain_context = training_context(batch, *model.parameters);
  model.parameters->begin_step();
  const double plain_loss =
      train_once(model.description, build_plain_segments(model.description, at::kDouble), plain_context);
  const Tensors plain_gradients = all_gradients(*model.parameters);
  RunContext context = training_context(batch, *model.parameters);
  model.parameters->begin_step();
  const double loss = train_once(model.description, build_segments(model.description), context);
  EXPECT_NEAR(loss, plain_loss, 1e-6 * plain_loss);
  compare_gradients(*model.parameters, plain_gradients, 5e-6);
}

// Two micro-batches, weight gradients of both after all inputs' gradients, give the sum of both.
TEST_P(SegmentsOfModel, AccumulateAndDeferWeightGradients) {
  TestModel model(model_case());
  const auto segments = build_segments(model.description);
  const MicroBatch whole = test_batch(4, 20, model.description.vocabulary);
  const MicroBatch left = test_batch(2, 20, model.description.vocabulary, 0);
  const MicroBatch right = test_batch(2, 20, model.description.vocabulary, 2);
  RunContext context = training_context(whole, *model.parameters);
  model.parameters->begin_step();
  const double loss = train_once(model.description, segments, context);
  const Tensors gradients = all_gradients(*model.parameters);
  model.parameters->begin_step();
  double cut_loss = 0;
  std::vector<std::function<void()>> queue;
  for (const MicroBatch* part : {&right, &left}) {
    RunContext part_context = training_context(*part, *model.parameters);
    part_context.weight_gradients = WeightGradients::kQueue;
    cut_loss += train_once(model.description, segments, part_context);
    for (auto& each : part_context.weight_gradient_queue) queue.push_back(std::move(each));
  }
  for (const auto& compute : queue) compute();
  EXPECT_NEAR(cut_loss, loss, 1e-6 * loss);  // dropout masks are those of the samples, not of the cut
  compare_gradients(*model.parameters, gradients, 5e-6);
}

// With a cache, in pieces of several lengths, logits are those of the whole text.
TEST_P(SegmentsOfModel, ContinueFromTheCache) {
  TestModel model(model_case());
  const auto segments = build_segments(model.description);
  const MicroBatch batch = test_batch(2, 30, model.description.vocabulary);
  RunContext context;
  context.batch = &batch;
  context.parameters = model.parameters.get();
  const at::Tensor whole = evaluate_value(model.description, segments, context, "head.logits");
  KeyValueCache cache;
  context.cache = &cache;
  int64_t start = 0;
  for (const int64_t length : {11, 1, 1, 17}) {
    MicroBatch piece;
    piece.tokens = batch.tokens.narrow(1, start, length);
    piece.positions = batch.positions.narrow(1, start, length);
    context.batch = &piece;
    const at::Tensor logits = evaluate_value(model.description, segments, context, "head.logits");
    EXPECT_LT(relative_error(logits, whole.narrow(1, start, length)), 1e-6) << start;
    start += length;
  }
}

// What backward needs is what the description says.
TEST_P(SegmentsOfModel, KeepWhatTheDescriptionSays) {
  TestModel model(model_case());
  const MicroBatch batch = test_batch(2, 16, model.description.vocabulary);
  RunContext context = training_context(batch, *model.parameters);
  const auto segments = build_segments(model.description);
  Tensors values(model.description.values.size());
  for (size_t index = 0; index < segments.size(); ++index) {
    const model::SegmentDescription& description = model.description.segments[index];
    Tensors inputs;
    for (const int value : description.inputs) inputs.push_back(values[static_cast<size_t>(value)]);
    Saved saved;
    const Tensors outputs = segments[index]->forward(context, inputs, saved);
    double kept = 0;
    for (const at::Tensor& tensor : saved.tensors) {
      bool input = false;
      for (const at::Tensor& each : inputs) {
        if (!each.defined()) continue;
        input = input || each.storage().is_alias_of(tensor.storage());
      }
      if (!input) kept += static_cast<double>(tensor.numel());
    }
    EXPECT_EQ(kept, description.cost({2, 16}).saved_values) << description.path;
    for (size_t i = 0; i < outputs.size(); ++i) {
      const auto number = static_cast<size_t>(description.outputs[i]);
      values[number] = outputs[i];
      if (is_statistics(model, description.outputs[i])) continue;
      std::vector<int64_t> shape = {2, 16};
      const auto& trailing = model.description.values[number].trailing;
      shape.insert(shape.end(), trailing.begin(), trailing.end());
      if (description.kind != model::SegmentKind::kLoss) {
        EXPECT_EQ(outputs[i].sizes().vec(), shape) << description.path;
      }
    }
  }
}

TEST_P(SegmentsOfModel, LeaveFrozenParametersAlone) {
  const TestModel shape(model_case());
  std::vector<bool> frozen;
  for (size_t i = 0; i < shape.parameters->size(); ++i) frozen.push_back(i % 3 == 1);
  TestModel model(model_case(), at::kFloat, frozen);
  const MicroBatch batch = test_batch(2, 16, model.description.vocabulary);
  const auto gradients = [&](TestModel& of) {
    RunContext context = training_context(batch, *of.parameters);
    of.parameters->begin_step();
    train_once(of.description, build_segments(of.description), context);
  };
  TestModel whole(model_case());
  gradients(whole);
  gradients(model);
  for (size_t i = 0; i < frozen.size(); ++i) {
    EXPECT_EQ(model.parameters->gradient(static_cast<int>(i)).defined(), !frozen[i]);
  }
  compare_gradients(*model.parameters, all_gradients(*whole.parameters), 5e-6);
}

INSTANTIATE_TEST_SUITE_P(Variants, SegmentsOfModel, ::testing::Range(size_t{0}, model_cases().size()),
                         [](const auto& each) { return model_cases()[each.param].name; });

}  // namespace
}  // namespace weft::nn
