#include "optim/optimizer.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace weft::optim {
namespace {

at::Tensor numbers(std::vector<double> values) { return at::tensor(at::ArrayRef<double>(values), at::kFloat); }

recipe::AdamW adamw() {
  recipe::AdamW node;
  node.betas = {0.9, 0.95};
  node.epsilon = 1e-8;
  node.weight_decay = 0.1;
  node.clip = 0;
  return node;
}

// torch.optim.AdamW's own fused kernel, step by step on the same gradients, with the gradients clipped beforehand.
TEST(AdamW, FollowsTheFusedKernelOfTorch) {
  for (const double clip : {0.0, 0.5}) {
    recipe::AdamW node = adamw();
    node.clip = clip;
    const at::Tensor start = at::linspace(-2, 2, 1003, at::kFloat);
    std::vector<Group> groups = {{1, 1, false, start.clone(), {}}, {1, 0, false, start.clone(), {}}};
    const at::Tensor first = groups[0].master, second = groups[1].master;
    const auto optimizer = make_optimizer(node, std::move(groups));
    std::vector<at::Tensor> wanted = {start.clone(), start.clone()};
    std::vector<at::Tensor> averages = {at::zeros_like(start), at::zeros_like(start)};
    std::vector<at::Tensor> squares = {at::zeros_like(start), at::zeros_like(start)};
    for (int step = 1; step <= 5; ++step) {
      const std::vector<at::Tensor> gradients = {(start * step).sin(), (start * step).cos() * 1e-3};
      const double norm = at::cat({gradients[0], gradients[1]}).to(at::kDouble).norm().item<double>();
      const double rate = 1e-2 / step;
      optimizer->step(gradients, norm, std::vector{rate, rate});
      const double scale = clip > 0 ? std::min(1.0, clip / (norm + 1e-6)) : 1;
      for (size_t group = 0; group < 2; ++group) {
        const at::Tensor count = at::full({}, static_cast<double>(step), at::kFloat);
        at::_fused_adamw_({wanted[group]}, {gradients[group] * scale}, {averages[group]}, {squares[group]}, {}, {count},
                          rate, 0.9, 0.95, group == 0 ? 0.1 : 0.0, 1e-8, false, false);
      }
    }
    EXPECT_TRUE(at::allclose(first, wanted[0], 1e-6, 1e-7));
    EXPECT_TRUE(at::allclose(second, wanted[1], 1e-6, 1e-7));
    EXPECT_FALSE(at::allclose(first, start, 1e-4, 1e-4));
  }
}

// The first step by hand: m = 0.1 g, v = 0.05 g^2, both corrected to g and g^2; p = p (1 - rate decay) - rate g / (|g|
// + epsilon).
TEST(AdamW, FirstStepInClosedForm) {
  recipe::AdamW node = adamw();
  node.epsilon = 0.5;
  std::vector<Group> groups = {{1, 1, false, numbers({1, 2, -3}), {}}};
  const at::Tensor master = groups[0].master;
  const auto optimizer = make_optimizer(node, std::move(groups));
  const std::vector<at::Tensor> gradients = {numbers({1, -1, 0})};
  optimizer->step(gradients, std::sqrt(2.0), std::vector{0.1});
  const at::Tensor wanted = numbers({1 * 0.99 - 0.1 / 1.5, 2 * 0.99 + 0.1 / 1.5, -3 * 0.99});
  EXPECT_TRUE(at::allclose(master, wanted, 1e-6, 0));
}

// Two groups of one optimizer against two optimizers with the products of settings and factors.
TEST(AdamW, GroupsMultiplyRateEpsilonAndDecay) {
  const std::vector<at::Tensor> gradients = {numbers({1e-3, -2e-8, 0.5}), numbers({1e-3, -2e-8, 0.5})};
  std::vector<Group> groups = {{0.25, 4, false, numbers({1, 2, -3}), {}}, {1, 1, false, numbers({1, 2, -3}), {}}};
  const std::vector<at::Tensor> masters = {groups[0].master, groups[1].master};
  const auto optimizer = make_optimizer(adamw(), std::move(groups));
  for (int step = 0; step < 3; ++step) optimizer->step(gradients, 1, std::vector{2e-2, 1e-2});
  const auto alone = [&](double rate, double epsilon, double decay) {
    recipe::AdamW node = adamw();
    node.epsilon = epsilon;
    node.weight_decay = decay;
    const at::Tensor master = numbers({1, 2, -3});
    const auto other = make_optimizer(node, {{1, 1, false, master, {}}});
    for (int step = 0; step < 3; ++step) other->step({gradients.data(), 1}, 1, std::vector{rate});
    return master;
  };
  EXPECT_TRUE(at::equal(masters[0], alone(2e-2, 0.25e-8, 0.4)));
  EXPECT_TRUE(at::equal(masters[1], alone(1e-2, 1e-8, 0.1)));
}

TEST(Optimizer, StateIsRestoredThroughItsTensors) {
  const auto make = [](at::Tensor& master) {
    master = at::linspace(-1, 1, 10, at::kFloat);
    return make_optimizer(adamw(), {{1, 1, false, master, {{"a", 0, 6, {}}, {"b", 6, 4, {}}}}});
  };
  const auto gradients = [](int step) { return std::vector<at::Tensor>{at::linspace(-1, 2, 10, at::kFloat) * step}; };
  at::Tensor master, resumed_master;
  const auto whole = make(master);
  for (int step = 1; step <= 2; ++step) whole->step(gradients(step), 1, std::vector{1e-2});

  const auto resumed = make(resumed_master);
  resumed_master.copy_(master);
  const std::vector<StateTensor> from = whole->state(), to = resumed->state();
  ASSERT_EQ(from.size(), 4U);
  EXPECT_EQ(from[0].path, "a");
  EXPECT_EQ(from[1].name, "exp_avg_sq");
  EXPECT_EQ(from[1].tensor.numel(), 6);
  for (size_t i = 0; i < from.size(); ++i) {
    EXPECT_GT(from[i].tensor.abs().sum().item<double>(), 0);
    to[i].tensor.copy_(from[i].tensor);
  }
  resumed->restore_steps(whole->steps());
  for (int step = 3; step <= 4; ++step) {
    whole->step(gradients(step), 1, std::vector{1e-2});
    resumed->step(gradients(step), 1, std::vector{1e-2});
  }
  EXPECT_TRUE(at::equal(master, resumed_master));
}

TEST(Optimizer, RefusesGradientsThatAreNotNumbers) {
  std::vector<Group> groups = {{1, 1, false, numbers({1, 2}), {}}};
  const at::Tensor master = groups[0].master;
  const auto optimizer = make_optimizer(adamw(), std::move(groups));
  const std::vector<at::Tensor> gradients = {numbers({NAN, 0})};
  EXPECT_THROW(optimizer->step(gradients, NAN, std::vector{0.1}), Error);
  EXPECT_TRUE(at::equal(master, numbers({1, 2})));
}

}  // namespace
}  // namespace weft::optim
