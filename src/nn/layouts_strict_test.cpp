// Strict mode: loss and gradients are equal bit by bit on every layout and for every cut into micro-batches.
#include <cmath>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "kernel/blas.h"
#include "kernel/process.h"
#include "nn/test_ranks.h"

namespace weft::nn {
namespace {

constexpr int64_t kFirstSample = 5;

class StrictModel : public ::testing::TestWithParam<size_t> {
 protected:
  static void SetUpTestSuite() { kernel::start_process({.threads = 1, .reproducible = true}); }
};

bool same_bits(const at::Tensor& a, const at::Tensor& b) { return at::equal(a.view(at::kInt), b.view(at::kInt)); }

void expect_equal(const TestModel& model, const TestOutcome& got, const TestOutcome& wanted) {
  EXPECT_EQ(got.exact_loss, wanted.exact_loss);
  EXPECT_EQ(got.loss, wanted.loss);
  for (size_t i = 0; i < wanted.gradients.size(); ++i) {
    if (!wanted.gradients[i].defined()) continue;
    EXPECT_TRUE(same_bits(got.gradients[i], wanted.gradients[i]))
        << model.parameters->path(static_cast<int>(i)) << " differs by "
        << relative_error(got.gradients[i], wanted.gradients[i]);
  }
}

TEST_P(StrictModel, IsEqualOnEveryLayout) {
  TestModel model(model_cases()[GetParam()]);
  for (const int64_t length : {37, 5}) {
    const MicroBatch plain = test_batch(2, length, model.description.vocabulary, kFirstSample);
    const MicroBatch batch = length > 8 ? with_documents(plain) : plain;
    const TestOutcome one = train_on_ranks(model, {1, 1, false, true}, {batch}, kFirstSample);
    for (TestLayout layout : std::vector<TestLayout>{
             {1, 2}, {1, 4}, {2, 1}, {2, 1, true}, {3, 1, true}, {4, 1}, {2, 2, true}, {3, 2}, {2, 4, true}}) {
      layout.strict = true;
      SCOPED_TRACE(layout.name() + " length " + std::to_string(length));
      expect_equal(model, train_on_ranks(model, layout, {batch}, kFirstSample), one);
    }
  }
}

TEST_P(StrictModel, IsEqualForEveryCutIntoMicroBatches) {
  TestModel model(model_cases()[GetParam()]);
  const auto batch = [&](int64_t sequences, int64_t first) {
    return test_batch(sequences, 24, model.description.vocabulary, kFirstSample + first);
  };
  const TestOutcome one = train_on_ranks(model, {1, 1, false, true}, {batch(5, 0)}, kFirstSample);
  expect_equal(model, train_on_ranks(model, {1, 1, false, true}, {batch(2, 3), batch(3, 0)}, kFirstSample), one);
  expect_equal(model, train_on_ranks(model, {2, 2, true, true}, {batch(1, 0), batch(3, 2), batch(1, 1)}, kFirstSample),
               one);
}

// Strict mode adds in another order, and that is all.
TEST_P(StrictModel, IsNearNormalMode) {
  TestModel model(model_cases()[GetParam()]);
  const MicroBatch batch = test_batch(2, 37, model.description.vocabulary, kFirstSample);
  const TestOutcome strict = train_on_ranks(model, {1, 1, false, true}, {batch}, kFirstSample);
  const TestOutcome normal = train_on_ranks(model, {}, {batch}, kFirstSample);
  EXPECT_NEAR(strict.loss, normal.loss, 1e-6 * normal.loss);
  double squares = 0, differences = 0;
  for (size_t i = 0; i < normal.gradients.size(); ++i) {
    squares += normal.gradients[i].square().sum().item<double>();
    differences += (strict.gradients[i] - normal.gradients[i]).square().sum().item<double>();
  }
  EXPECT_LT(std::sqrt(differences / squares), 2e-6);
}

TEST(Strict, OfMoreRanksThanKeyValueHeads) {
  kernel::start_process({.threads = 1, .reproducible = true});
  for (const int64_t heads : {8, 6}) {
    TestModel model(case_of_heads(heads, 2));
    const MicroBatch batch = test_batch(2, 75, model.description.vocabulary, kFirstSample);
    const TestOutcome one = train_on_ranks(model, {1, 1, false, true}, {batch}, kFirstSample);
    for (TestLayout layout : std::vector<TestLayout>{{4, 1}, {5, 2}, {6, 1, true}, {4, 4, true}}) {
      layout.strict = true;
      SCOPED_TRACE(layout.name());
      expect_equal(model, train_on_ranks(model, layout, {batch}, kFirstSample), one);
    }
  }
}

TEST(Strict, LeavesFrozenParametersAlone) {
  kernel::start_process({.threads = 1, .reproducible = true});
  TestModel shape(model_cases()[1]);
  std::vector<bool> frozen;
  for (size_t i = 0; i < shape.parameters->size(); ++i) frozen.push_back(i % 3 == 1);
  TestModel model(model_cases()[1], at::kFloat, frozen);
  const MicroBatch batch = test_batch(2, 19, model.description.vocabulary, kFirstSample);
  const TestOutcome one = train_on_ranks(model, {1, 1, false, true}, {batch}, kFirstSample);
  for (size_t i = 0; i < frozen.size(); ++i) EXPECT_EQ(one.gradients[i].defined(), !frozen[i]);
  expect_equal(model, train_on_ranks(model, {2, 2, true, true}, {batch}, kFirstSample), one);
}

// As in a process whose library has no strict mode.
TEST(Strict, HoldsWithPlainProducts) {
  TestModel model(model_cases()[0]);
  const MicroBatch batch = test_batch(2, 19, model.description.vocabulary, kFirstSample);
  const TestOutcome library = train_on_ranks(model, {1, 1, false, true}, {batch}, kFirstSample);
  kernel::use_plain_products(true);
  const TestOutcome one = train_on_ranks(model, {1, 1, false, true}, {batch}, kFirstSample);
  expect_equal(model, train_on_ranks(model, {2, 2, true, true}, {batch}, kFirstSample), one);
  kernel::use_plain_products(false);
  EXPECT_NEAR(one.loss, library.loss, 1e-6 * library.loss);
}

INSTANTIATE_TEST_SUITE_P(Variants, StrictModel, ::testing::Range(size_t{0}, model_cases().size()),
                         [](const auto& each) { return model_cases()[each.param].name; });

}  // namespace
}  // namespace weft::nn
