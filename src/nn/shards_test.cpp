// Segments on tensor, sequence and context ranks against one rank, in normal mode.
#include <algorithm>
#include <cmath>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "nn/segments.h"
#include "nn/test_ranks.h"

namespace weft::nn {
namespace {

// Every layout against one rank that knows nothing of ranks.
void compare_layouts(TestModel& model, const std::vector<TestLayout>& layouts, double tolerance = 1e-5) {
  for (const bool documents : {false, true}) {
    const MicroBatch plain = test_batch(2, 37, model.description.vocabulary, 5);
    const MicroBatch batch = documents ? with_documents(plain) : plain;
    RunContext context = training_context(batch, *model.parameters);
    model.parameters->begin_step();
    const double loss = train_once(model.description, build_segments(model.description), context);
    double squares = 0;
    for (int index = 0; index < static_cast<int>(model.parameters->size()); ++index) {
      if (model.parameters->frozen(index)) continue;
      squares += model.parameters->gradient(index).square().sum().item<double>();
    }
    for (const TestLayout& layout : layouts) {
      SCOPED_TRACE(layout.name());
      const TestOutcome outcome = train_on_ranks(model, layout, {batch}, 5);
      EXPECT_NEAR(outcome.loss, loss, 0.1 * tolerance * loss);
      for (int index = 0; index < static_cast<int>(model.parameters->size()); ++index) {
        const at::Tensor wanted = model.parameters->gradient(index);
        ASSERT_EQ(outcome.gradients[static_cast<size_t>(index)].defined(), wanted.defined());
        if (!wanted.defined()) continue;
        const double norm = std::max(wanted.norm().item<double>(), 1e-2 * std::sqrt(squares));
        const double difference = (outcome.gradients[static_cast<size_t>(index)] - wanted).norm().item<double>();
        EXPECT_LT(difference / norm, tolerance) << model.parameters->path(index);
      }
    }
  }
}

class ShardsOfModel : public ::testing::TestWithParam<size_t> {};

TEST_P(ShardsOfModel, MakeTheModel) {
  TestModel model(model_cases()[GetParam()]);
  compare_layouts(model, {{1, 2}, {1, 4}, {2, 1}, {2, 1, true}, {3, 1, true}, {4, 1}, {2, 2, true}, {2, 4, true}});
}

TEST(Shards, InBFloat16) {
  TestModel model(model_cases()[1], at::kBFloat16);
  compare_layouts(model, {{2, 2, true}, {3, 1}}, 3e-2);
}

TEST(Shards, LeaveFrozenParametersAlone) {
  TestModel shape(model_cases()[1]);
  std::vector<bool> frozen;
  for (size_t i = 0; i < shape.parameters->size(); ++i) frozen.push_back(i % 3 == 1);
  TestModel model(model_cases()[1], at::kFloat, frozen);
  compare_layouts(model, {{2, 2, true}, {4, 1}});
}

TEST(Shards, OfMoreRanksThanKeyValueHeads) {
  TestModel eight(case_of_heads(8, 2));
  compare_layouts(eight, {{8, 1, true}, {8, 2}});
  TestModel six(case_of_heads(6, 2));  // rank 1 of 4 reads both key/value heads
  compare_layouts(six, {{4, 1}, {5, 2, true}, {6, 1}});
}

INSTANTIATE_TEST_SUITE_P(Variants, ShardsOfModel, ::testing::Range(size_t{0}, model_cases().size()),
                         [](const auto& each) { return model_cases()[each.param].name; });

}  // namespace
}  // namespace weft::nn
