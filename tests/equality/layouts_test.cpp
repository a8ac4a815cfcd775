// Normal mode: every layout trains as one rank does, but for the order of sums.
#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "runs.h"

namespace weft::equality {
namespace {

double greatest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  double most = a.size() == b.size() ? 0 : INFINITY;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) most = std::max(most, std::abs(a[i] - b[i]));
  return most;
}

class Layouts : public testing::TestWithParam<const char*> {};

TEST_P(Layouts, TrainAsOneRankDoes) {
  Runs runs;
  const Outcome one = runs.train(GetParam(), "");
  ASSERT_EQ(one.losses.size(), 20U);
  EXPECT_LT(one.losses.back(), one.losses.front() - 0.5) << "learns nothing, so that nothing is compared";
  for (const Settings& layout : kLayouts) {
    const Outcome many = runs.train(GetParam(), layout);
    EXPECT_LT(greatest_difference(many.losses, one.losses), 6e-5) << layout;
    EXPECT_LT(greatest_difference(many.gradient_norms, one.gradient_norms), 1e-3) << layout;
    EXPECT_NEAR(*many.summary.validation_loss, *one.summary.validation_loss, 6e-5) << layout;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Layouts, testing::Values("gpt", "llama"),
                         [](const auto& row) { return std::string(row.param); });

}  // namespace
}  // namespace weft::equality
