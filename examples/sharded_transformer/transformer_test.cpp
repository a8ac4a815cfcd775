#include "transformer.h"

#include <cmath>
#include <mutex>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "comm/threads.h"

namespace weft::example {
namespace {

std::vector<double> losses_on(int fsdp, int tp) {
  std::vector<double> losses;
  std::mutex mutex;
  comm::run_ranks(fsdp * tp, [&](comm::World& world) {
    const std::vector<double> own = train(world, fsdp, tp, 10);
    const std::lock_guard lock(mutex);
    EXPECT_TRUE(losses.empty() || own == losses);  // every rank has the same
    losses = own;
  });
  return losses;
}

TEST(ShardedTransformer, ManyRanksHaveTheLossesOfOne) {
  const std::vector<double> one = losses_on(1, 1);
  EXPECT_NEAR(one.front(), std::log(64), 0.2);
  EXPECT_LT(one.back(), one.front() - 0.2);
  for (const auto& [fsdp, tp] : {std::pair(2, 2), std::pair(1, 4), std::pair(4, 1), std::pair(1, 3), std::pair(3, 1)}) {
    const std::vector<double> many = losses_on(fsdp, tp);
    for (size_t step = 0; step < one.size(); ++step) {
      EXPECT_NEAR(many[step], one[step], 6e-5) << fsdp << " x " << tp << ", step " << step;
    }
  }
}

TEST(ShardedTransformer, ThePlanIsShortAndAllOfItIsUsed) {
  EXPECT_LT(parallel_plan().size(), 29U);
  comm::run_ranks(1, [](comm::World& world) {
    const comm::Groups groups(world, {{{"fsdp", 1}, {"tp", 1}}});
    const tensor::Plan plan(parallel_plan(), groups);
    const Transformer model({}, 1, plan);
    (void)model.loss(at::zeros({4, 17}, at::kLong), 0);
    EXPECT_EQ(plan.unmatched(), "");
  });
}

}  // namespace
}  // namespace weft::example
