// Normal mode: every pipeline trains as one rank does, but for the order of sums.
#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "runs.h"

namespace weft::equality {
namespace {

class Pipelines : public testing::TestWithParam<const char*> {};

TEST_P(Pipelines, TrainAsOneRankDoes) {
  Runs runs;
  const Outcome one = runs.train(GetParam(), "", {"model.layers=4"});
  ASSERT_EQ(one.losses.size(), 20U);
  for (const Settings& layout : kPipelines) {
    const Outcome many = runs.train(GetParam(), layout, {"model.layers=4"});
    ASSERT_EQ(many.losses.size(), one.losses.size()) << layout;
    for (size_t step = 0; step < one.losses.size(); ++step) {
      EXPECT_NEAR(many.losses[step], one.losses[step], 6e-5) << layout << " step " << step;
      EXPECT_NEAR(many.gradient_norms[step], one.gradient_norms[step], 1e-3) << layout << " step " << step;
    }
    EXPECT_NEAR(*many.summary.validation_loss, *one.summary.validation_loss, 6e-5) << layout;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Pipelines, testing::Values("gpt", "llama"),
                         [](const auto& row) { return std::string(row.param); });

}  // namespace
}  // namespace weft::equality
