// The FLOPs that the description states against the matrix products that the plain segments really call.
#include <ATen/ATen.h>
#include <ATen/record_function.h>
#include <gtest/gtest.h>

#include "nn/plain_segments.h"
#include "nn/test_model.h"

namespace weft::nn {
namespace {

thread_local double counted_flops = 0;  // RecordFunction's callbacks are plain functions

double flops_of(const at::RecordFunction& function) {
  const std::string_view name = function.name();
  const bool with_bias = name == "aten::addmm";
  if (name != "aten::mm" && name != "aten::bmm" && !with_bias) return 0;
  const auto inputs = function.inputs();
  const at::Tensor left = inputs[with_bias ? 1 : 0].toTensor(), right = inputs[with_bias ? 2 : 1].toTensor();
  return 2.0 * static_cast<double>(left.numel()) * static_cast<double>(right.size(-1));
}

std::unique_ptr<at::ObserverContext> count(const at::RecordFunction& function) {
  counted_flops += flops_of(function);
  return nullptr;
}

class FlopsOfModel : public ::testing::TestWithParam<size_t> {};

TEST_P(FlopsOfModel, AreThoseOfTheProducts) {
  constexpr int64_t kSequences = 2, kLength = 12;
  TestModel model(model_cases()[GetParam()]);
  const MicroBatch batch = test_batch(kSequences, kLength, model.description.vocabulary);
  RunContext context = training_context(batch, *model.parameters);
  model.parameters->begin_step();
  const auto segments = build_plain_segments(model.description, at::kFloat);
  const at::CallbackHandle handle = at::addThreadLocalCallback(
      at::RecordFunctionCallback(count).needsInputs(true).scopes({at::RecordScope::FUNCTION}));
  counted_flops = 0;
  train_once(model.description, segments, context);
  const double whole_step = counted_flops;
  context.training = false;
  counted_flops = 0;
  evaluate_value(model.description, segments, context, "loss");
  at::removeCallback(handle);

  // The plain attention computes all pairs and masks them afterwards.
  double forward = 0, backward = 0;
  for (const model::SegmentDescription& segment : model.description.segments) {
    const double tokens = kSequences * kLength, pairs = tokens * kLength;
    const double flops =
        segment.formula.forward_flops_per_token * tokens + segment.formula.forward_flops_per_pair * pairs;
    forward += flops;
    backward += flops * segment.formula.backward_ratio;
    const double attended = kSequences * model::attended_pairs(kLength, segment.formula.window);
    EXPECT_NEAR(segment.cost({kSequences, kLength}).forward_flops,
                segment.formula.forward_flops_per_token * tokens + segment.formula.forward_flops_per_pair * attended,
                1e-6);
  }
  EXPECT_NEAR(counted_flops, forward, 1e-6 * forward);
  EXPECT_NEAR(whole_step, forward + backward, 1e-6 * whole_step);
}

INSTANTIATE_TEST_SUITE_P(Variants, FlopsOfModel, ::testing::Range(size_t{0}, model_cases().size()),
                         [](const auto& each) { return model_cases()[each.param].name; });

}  // namespace
}  // namespace weft::nn
