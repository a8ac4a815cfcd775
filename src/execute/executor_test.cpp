#include "execute/executor.h"

#include <set>

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "base/error.h"
#include "schedule/passes.h"

namespace weft::execute {
namespace {

using model::SegmentKind;
using schedule::Op;
using schedule::Purpose;

constexpr int64_t kVocabulary = 7, kWidth = 5, kSequences = 2, kLength = 3;

// A model in which values have one, two and three readers, a parameter has two users, and the gradient of value 0 is
// the very tensor of value 1's while another reader's is added to it:
//   0 embed -> 0 | 1 mix(0; w0) -> 1 | 2 mix(0; w1) -> 2 | 3 add(0, 1) -> 3 | 4 add(3, 2) -> 4 | 5 logits(4; e) -> 5
//   6 loss(5) -> 6
struct Toy {
  model::ModelDescription description;

  Toy() {
    add_parameter("embedding.weight", {kVocabulary, kWidth});
    add_parameter("first.weight", {kWidth, kWidth});
    add_parameter("second.weight", {kWidth, kWidth});
    description.values.resize(7);
    add_segment(SegmentKind::kEmbed, {0}, {}, 0);
    add_segment(SegmentKind::kMlp, {1}, {0}, 1);
    add_segment(SegmentKind::kMlp, {2}, {0}, 2);
    add_segment(SegmentKind::kResidual, {}, {0, 1}, 3);
    add_segment(SegmentKind::kResidual, {}, {3, 2}, 4);
    add_segment(SegmentKind::kLogits, {0}, {4}, 5);
    add_segment(SegmentKind::kLoss, {}, {5}, 6);
  }

  void add_parameter(const std::string& path, std::vector<int64_t> shape) {
    model::ParameterDescription parameter;
    parameter.path = path;
    parameter.shape = std::move(shape);
    parameter.initializer.standard_deviation = 0.5;
    description.parameters.push_back(parameter);
  }

  void add_segment(SegmentKind kind, std::vector<int> parameters, std::vector<int> inputs, int output) {
    model::SegmentDescription segment;
    segment.kind = kind;
    segment.parameters = std::move(parameters);
    segment.inputs = std::move(inputs);
    segment.outputs = {output};
    description.segments.push_back(segment);
  }
};

// What each kind computes, with operators that autograd knows.
at::Tensor compute(SegmentKind kind, const nn::MicroBatch& batch, const nn::Tensors& inputs,
                   const nn::Tensors& weights) {
  switch (kind) {
    case SegmentKind::kEmbed:
      return at::embedding(weights[0], batch.tokens);
    case SegmentKind::kMlp:
      return at::tanh(at::linear(inputs[0], weights[0]));
    case SegmentKind::kResidual:
      return inputs[0] + inputs[1];
    case SegmentKind::kLogits:
      return at::linear(inputs[0], weights[0]);
    default: {
      const at::Tensor logits = inputs[0].reshape({-1, kVocabulary});
      return at::cross_entropy_loss(logits, batch.targets.reshape({-1}), {}, at::Reduction::Sum, -1);
    }
  }
}

// One segment by autograd, within the border rules.
class ToySegment : public nn::Segment {
 public:
  explicit ToySegment(const model::SegmentDescription& description) : description_(description) {}

  nn::Tensors forward(nn::RunContext& context, const nn::Tensors& inputs, nn::Saved& saved) override {
    for (const at::Tensor& input : inputs) EXPECT_FALSE(input.requires_grad());
    const c10::AutoGradMode mode(context.training);
    nn::Tensors leaves;
    for (const at::Tensor& input : inputs) leaves.push_back(input.detach().set_requires_grad(context.training));
    nn::Tensors weights;
    for (const int index : description_.parameters) {
      weights.push_back(context.parameters->value(index).detach().set_requires_grad(context.training));
    }
    const at::Tensor output = compute(description_.kind, *context.batch, leaves, weights);
    if (description_.kind == SegmentKind::kLoss) context.metrics["loss_sum"] += output.item<double>();
    if (context.training) {
      saved.tensors = leaves;
      saved.tensors.insert(saved.tensors.end(), weights.begin(), weights.end());
      saved.tensors.push_back(output);
    }
    return {output.detach()};
  }

  nn::Tensors backward(nn::RunContext& context, nn::Saved& saved, nn::Tensors output_gradients) override {
    if (description_.kind == SegmentKind::kResidual) return {output_gradients[0], output_gradients[0]};
    const at::Tensor output = saved.tensors.back();
    saved.tensors.pop_back();
    const nn::Tensors given{output_gradients[0].clone()};
    // Uses the right that the border gives: to overwrite what nobody else holds.
    if (output_gradients[0].use_count() == 1 && output_gradients[0].dim() > 0) output_gradients[0].fill_(1e30);
    nn::Tensors gradients = torch::autograd::grad({output}, saved.tensors, given);
    const size_t inputs = description_.inputs.size();
    const nn::Tensors weights(gradients.begin() + static_cast<ptrdiff_t>(inputs), gradients.end());
    gradients.resize(inputs);
    context.weight_gradient([weights, parameters = context.parameters, indices = description_.parameters] {
      for (size_t i = 0; i < weights.size(); ++i) {
        const nn::GradientTarget target = parameters->gradient_target(indices[i]);
        if (!target.buffer.defined()) continue;
        target.accumulate ? target.buffer.add_(weights[i]) : target.buffer.copy_(weights[i]);
      }
    });
    return gradients;
  }

 private:
  const model::SegmentDescription& description_;
};

std::vector<std::unique_ptr<nn::Segment>> toy_segments(const Toy& toy) {
  std::vector<std::unique_ptr<nn::Segment>> segments;
  for (const model::SegmentDescription& description : toy.description.segments) {
    segments.push_back(std::make_unique<ToySegment>(description));
  }
  return segments;
}

std::vector<nn::MicroBatch> toy_batches(int count) {
  std::vector<nn::MicroBatch> batches(static_cast<size_t>(count));
  for (size_t index = 0; index < batches.size(); ++index) {
    const at::Tensor numbers = at::arange(kSequences * kLength, at::kLong) * 5 + static_cast<int64_t>(index) * 3;
    batches[index].tokens = at::remainder(numbers, kVocabulary).reshape({kSequences, kLength});
    batches[index].targets = at::remainder(numbers * 3 + 1, kVocabulary).reshape({kSequences, kLength});
    // Not predicted, in each micro-batch another number of tokens.
    for (size_t column = 0; column < index; ++column) batches[index].targets[0][static_cast<int64_t>(column)] = -1;
  }
  return batches;
}

int64_t count_targets(const std::vector<nn::MicroBatch>& batches) {
  int64_t count = 0;
  for (const nn::MicroBatch& batch : batches) count += batch.targets.ne(-1).sum().item<int64_t>();
  return count;
}

// Remembers what it was asked; changes nothing.
class RecordingStep : public OptimizerStep {
 public:
  void apply(nn::ParameterStore&, const StepFacts& facts) override {
    if (refuse) throw Error("refused");
    applied.push_back(facts);
  }
  bool refuse = false;
  std::vector<StepFacts> applied;
};

class ExecutorTest : public ::testing::Test {
 protected:
  ExecutorTest() { parameters_.initialize(1); }

  StepInput input(const std::vector<nn::MicroBatch>& batches) {
    StepInput input;
    input.micro_batches = batches;
    input.step = 4;
    input.target_tokens = count_targets(batches);
    input.optimizer = &optimizer_;
    return input;
  }
  schedule::Schedule training(int32_t micro_batches) {
    return schedule::expand(schedule::accumulate(toy_.description, micro_batches), toy_.description);
  }
  schedule::Schedule evaluation(int32_t micro_batches) {
    return schedule::expand(schedule::evaluate(toy_.description, micro_batches), toy_.description);
  }
  nn::Tensors gradients() {
    nn::Tensors result;
    for (size_t index = 0; index < parameters_.size(); ++index) {
      result.push_back(parameters_.gradient(static_cast<int>(index)).clone());
    }
    return result;
  }

  Toy toy_;
  nn::ParameterStore parameters_{toy_.description, std::vector<bool>(3, false), at::kFloat, at::kCPU};
  Executor executor_{toy_.description, toy_segments(toy_), parameters_};
  RecordingStep optimizer_;
};

TEST_F(ExecutorTest, GradientsEqualThoseOfAutogradOverTheWhole) {
  const std::vector<nn::MicroBatch> batches = toy_batches(3);
  const StepOutput output = executor_.run(training(3), input(batches));

  nn::Tensors weights;
  for (int index = 0; index < 3; ++index) {
    weights.push_back(parameters_.master(index).to(at::kDouble).detach().set_requires_grad(true));
  }
  at::Tensor loss = at::zeros({}, at::kDouble);
  for (const nn::MicroBatch& batch : batches) {
    nn::Tensors values(toy_.description.values.size());
    for (const model::SegmentDescription& segment : toy_.description.segments) {
      nn::Tensors inputs, used;
      for (const int value : segment.inputs) inputs.push_back(values[static_cast<size_t>(value)]);
      for (const int index : segment.parameters) used.push_back(weights[static_cast<size_t>(index)]);
      values[static_cast<size_t>(segment.outputs[0])] = compute(segment.kind, batch, inputs, used);
    }
    loss = loss + values.back();
  }
  loss = loss / static_cast<double>(count_targets(batches));
  const nn::Tensors expected = torch::autograd::grad({loss}, weights, {});

  EXPECT_NEAR(output.loss, loss.item<double>(), 1e-6);
  double squares = 0;
  const nn::Tensors actual = gradients();
  for (size_t index = 0; index < expected.size(); ++index) {
    EXPECT_LT((actual[index] - expected[index]).abs().max().item<double>(), 1e-6) << index;
    EXPECT_GT(expected[index].abs().max().item<double>(), 1e-3);
    squares += expected[index].square().sum().item<double>();
  }
  EXPECT_NEAR(output.gradient_norm, std::sqrt(squares), 1e-6);
}

TEST_F(ExecutorTest, SplitBackwardGivesTheSameBits) {
  const std::vector<nn::MicroBatch> batches = toy_batches(3);
  const StepOutput merged = executor_.run(training(3), input(batches));
  const nn::Tensors expected = gradients();
  const schedule::Schedule split =
      schedule::expand(schedule::split_backward(schedule::accumulate(toy_.description, 3)), toy_.description);
  ASSERT_EQ(schedule::validate(split, toy_.description), "");
  const StepOutput output = executor_.run(split, input(batches));
  EXPECT_EQ(output.loss, merged.loss);
  const nn::Tensors actual = gradients();
  for (size_t index = 0; index < expected.size(); ++index) EXPECT_TRUE(at::equal(actual[index], expected[index]));
}

TEST_F(ExecutorTest, WeightGradientsWaitForTheirAction) {
  const std::vector<nn::MicroBatch> batches = toy_batches(1);
  schedule::Schedule schedule =
      schedule::expand(schedule::split_backward(schedule::accumulate(toy_.description, 1)), toy_.description);
  std::erase_if(schedule.roles[0].actions, [](const auto& action) { return action.op == Op::kBackwardWeight; });
  executor_.run(schedule, input(batches));
  for (const at::Tensor& gradient : gradients()) EXPECT_EQ(gradient.abs().max().item<double>(), 0);
}

TEST_F(ExecutorTest, EvaluationHasTheSameLossAndChangesNothing) {
  const std::vector<nn::MicroBatch> batches = toy_batches(2);
  const StepOutput trained = executor_.run(training(2), input(batches));
  const nn::Tensors before = gradients();
  StepInput without_optimizer = input(batches);
  without_optimizer.optimizer = nullptr;
  const StepOutput evaluated = executor_.run(evaluation(2), without_optimizer);
  EXPECT_EQ(evaluated.loss, trained.loss);
  const nn::Tensors after = gradients();
  for (size_t index = 0; index < after.size(); ++index) EXPECT_TRUE(at::equal(before[index], after[index]));
}

TEST_F(ExecutorTest, OptimizerLearnsLossAndNormOnce) {
  const std::vector<nn::MicroBatch> batches = toy_batches(2);
  const StepOutput output = executor_.run(training(2), input(batches));
  ASSERT_EQ(optimizer_.applied.size(), 1U);
  EXPECT_EQ(optimizer_.applied[0].step, 4);
  EXPECT_EQ(optimizer_.applied[0].loss, output.loss);
  EXPECT_EQ(optimizer_.applied[0].gradient_norm, output.gradient_norm);
}

TEST_F(ExecutorTest, ExceptionsPassThroughAndTheNextStepIsWhole) {
  const std::vector<nn::MicroBatch> batches = toy_batches(2);
  executor_.run(training(2), input(batches));
  const nn::Tensors expected = gradients();
  optimizer_.refuse = true;
  EXPECT_THROW(executor_.run(training(2), input(batches)), Error);
  optimizer_.refuse = false;
  executor_.run(training(2), input(batches));
  const nn::Tensors actual = gradients();
  for (size_t index = 0; index < expected.size(); ++index) EXPECT_TRUE(at::equal(actual[index], expected[index]));
}

// Follows actions, and after each the values that are still held somewhere.
class Follower : public ActionObserver {
 public:
  void begin(size_t index, const schedule::Action&) override { begun.push_back(index); }
  void end(size_t index, const schedule::Action& action) override {
    ended.push_back(index);
    last = action;
    if (after) after(action);
  }
  std::vector<size_t> begun, ended;
  schedule::Action last;
  std::function<void(const schedule::Action&)> after;
};

TEST_F(ExecutorTest, ObserverSeesEveryActionInOrder) {
  const std::vector<nn::MicroBatch> batches = toy_batches(2);
  Follower follower;
  StepInput observed = input(batches);
  observed.observer = &follower;
  const schedule::Schedule schedule = training(2);
  executor_.run(schedule, observed);
  std::vector<size_t> all(schedule.roles[0].actions.size());
  for (size_t index = 0; index < all.size(); ++index) all[index] = index;
  EXPECT_EQ(follower.begun, all);
  EXPECT_EQ(follower.ended, all);
  EXPECT_EQ(follower.last.op, Op::kStep);
}

// Its outputs are watched without being held.
class WatchedSegment : public ToySegment {
 public:
  using Watched = std::vector<c10::weak_intrusive_ptr<c10::TensorImpl, at::UndefinedTensorImpl>>;
  WatchedSegment(const model::SegmentDescription& description, Watched& watched)
      : ToySegment(description), watched_(watched) {}
  nn::Tensors forward(nn::RunContext& context, const nn::Tensors& inputs, nn::Saved& saved) override {
    nn::Tensors outputs = ToySegment::forward(context, inputs, saved);
    watched_.emplace_back(outputs[0].getIntrusivePtr());
    return outputs;
  }

 private:
  Watched& watched_;
};

TEST_F(ExecutorTest, ValuesLiveUntilTheyAreFreed) {
  WatchedSegment::Watched watched;
  std::vector<std::unique_ptr<nn::Segment>> segments;
  for (const model::SegmentDescription& description : toy_.description.segments) {
    segments.push_back(std::make_unique<WatchedSegment>(description, watched));
  }
  Executor executor(toy_.description, std::move(segments), parameters_);
  const std::vector<nn::MicroBatch> batches = toy_batches(1);
  std::set<size_t> freed;
  Follower follower;
  follower.after = [&](const schedule::Action& action) {
    if (action.op == Op::kFree) freed.insert(static_cast<size_t>(action.value));
    for (size_t value = 0; value < watched.size(); ++value) {
      EXPECT_EQ(watched[value].expired(), freed.contains(value)) << schedule::text(action) << ", value " << value;
    }
  };
  StepInput observed = input(batches);
  observed.observer = &follower;
  executor.run(evaluation(1), observed);
  EXPECT_EQ(freed.size(), toy_.description.values.size());
}

TEST_F(ExecutorTest, OpsWithoutHandlerAreNamed) {
  const std::vector<nn::MicroBatch> batches = toy_batches(1);
  schedule::Schedule schedule = training(1);
  schedule.roles[0].actions[0].op = Op::kDispatch;
  try {
    executor_.run(schedule, input(batches));
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("dispatch(stage 0"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace weft::execute
