#include "optim/muon.h"

#include <cmath>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "kernel/random.h"

namespace weft::optim {
namespace {

at::Tensor normal(std::vector<int64_t> shape, uint64_t key) {
  at::Tensor values = at::empty(shape, at::kFloat);
  kernel::fill_normal(values.view({-1}), {key, 0}, 0, 1);
  return values;
}

// U diag(p(s / |s|)) V^T from a singular value decomposition: what the products must come to.
at::Tensor analytic(const at::Tensor& matrix, const std::vector<QuinticStep>& steps) {
  const auto [u, s, vh] = at::linalg_svd(matrix, false);
  const at::Tensor norm = s.square().sum(-1, true).sqrt();
  at::Tensor values = s / at::where(norm > 0, norm, at::ones_like(norm));
  for (const QuinticStep& step : steps) {
    values = values * step.a + values.pow(3) * step.b + values.pow(5) * step.c;
  }
  return at::matmul(u * values.unsqueeze(-2), vh);
}

double largest_difference(const at::Tensor& found, const at::Tensor& wanted) {
  return (found.to(at::kDouble) - wanted.to(at::kDouble)).abs().max().item<double>();
}

// One row a shape: a row and a column, wide, tall, square, a stack of experts' matrices.
const std::vector<std::vector<int64_t>>& shapes() {
  static const std::vector<std::vector<int64_t>> shapes = {{1, 1},   {1, 9},    {9, 1},     {5, 7},     {40, 6},
                                                           {33, 33}, {64, 160}, {3, 8, 20}, {290, 300}};
  return shapes;
}

TEST(NewtonSchulz, IsThePolynomialOfTheSingularValues) {
  for (const char* coefficients : {"jordan", "polar_express"}) {
    const std::vector<QuinticStep> steps = quintic_steps(coefficients);
    for (const auto& shape : shapes()) {
      const at::Tensor matrix = normal(shape, 1);
      const at::Tensor wanted = analytic(matrix.to(at::kDouble), steps);
      EXPECT_LT(largest_difference(orthogonalised(matrix.to(at::kDouble), steps), wanted), 1e-10)
          << coefficients << matrix.sizes();
      EXPECT_LT(largest_difference(orthogonalised(matrix, steps), wanted), 1e-5) << coefficients << matrix.sizes();
    }
  }
}

TEST(NewtonSchulz, RankOneZeroHugeAndTiny) {
  const std::vector<QuinticStep> steps = quintic_steps("jordan");
  const at::Tensor one = at::matmul(normal({12, 1}, 2), normal({1, 30}, 3));
  EXPECT_LT(largest_difference(orthogonalised(one, steps), analytic(one.to(at::kDouble), steps)), 1e-5);
  EXPECT_EQ(orthogonalised(at::zeros({4, 6}), steps).abs().max().item<float>(), 0);
  EXPECT_EQ(orthogonalised(at::zeros({0, 6}), steps).numel(), 0);
  const at::Tensor matrix = normal({8, 20}, 4);
  const at::Tensor wanted = orthogonalised(matrix, steps);
  for (const double size : {0x1p-100, 0x1p-60, 0x1p60, 0x1p120}) {
    EXPECT_TRUE(at::equal(orthogonalised(matrix * size, steps), wanted)) << size;
  }
}

// Published ranges of the polynomials (kellerjordan.github.io/posts/muon; arXiv 2505.16932, with a safety of 1.02).
TEST(NewtonSchulz, CoefficientsReachThePublishedRanges) {
  const auto range = [](const char* coefficients, double least) {
    std::pair<double, double> reached = {10, 0};
    for (int i = 0; i <= 100000; ++i) {
      double x = least + (1 - least) * i / 100000;
      for (const QuinticStep& step : quintic_steps(coefficients)) {
        x = step.a * x + step.b * std::pow(x, 3) + step.c * std::pow(x, 5);
      }
      reached = {std::min(reached.first, x), std::max(reached.second, x)};
    }
    return reached;
  };
  EXPECT_NEAR(range("jordan", 0.01).first, 0.6818, 1e-4);
  EXPECT_NEAR(range("jordan", 0.01).second, 1.1344, 1e-4);
  EXPECT_NEAR(range("polar_express", 0.003).first, 0.859, 1e-3);
  EXPECT_NEAR(range("polar_express", 0.003).second, 1.141, 1e-3);
}

struct Trained {
  at::Tensor matrix, vector;
  std::unique_ptr<Optimizer> optimizer;
};

Trained make(const recipe::Muon& node) {
  Trained trained;
  trained.matrix = normal({6 * 10 + 4 * 4}, 5);
  trained.vector = normal({7}, 6);
  std::vector<Group> groups = {{1, 1, true, trained.matrix, {{"a", 0, 60, {6, 10}}, {"b", 60, 16, {4, 4}}}},
                               {1, 0, false, trained.vector, {{"c", 0, 7, {7}}}}};
  trained.optimizer = make_optimizer(node, std::move(groups));
  return trained;
}

void step(Trained& trained, uint64_t number, double rate = 0.1) {
  const std::vector<at::Tensor> gradients = {normal({76}, 100 + number), normal({7}, 200 + number)};
  trained.optimizer->step(gradients, 1, std::vector{rate, rate});
}

recipe::Muon muon() {
  recipe::Muon node;
  node.clip = 0;
  return node;
}

// Three steps written out, for each convention, with and without Nesterov, and each scale.
TEST(Muon, FollowsItsFormula) {
  for (const char* convention : {"sum", "average"}) {
    for (const bool nesterov : {true, false}) {
      for (const char* scale : {"adamw", "original", "spectral"}) {
        recipe::Muon node = muon();
        node.convention = convention;
        node.nesterov = nesterov;
        node.scale = scale;
        Trained trained = make(node);
        at::Tensor weights = trained.matrix.narrow(0, 0, 60).view({6, 10}).to(at::kDouble);
        at::Tensor buffer = at::zeros({6, 10}, at::kDouble);
        const double factor = std::string(scale) == "adamw"      ? 0.2 * std::sqrt(10)
                              : std::string(scale) == "original" ? 1
                                                                 : std::sqrt(0.6);
        const double weight = std::string(convention) == "sum" ? 1 : 0.05;
        for (uint64_t number = 0; number < 3; ++number) {
          const at::Tensor g = normal({76}, 100 + number).narrow(0, 0, 60).view({6, 10}).to(at::kDouble);
          buffer = buffer * 0.95 + g * weight;
          const at::Tensor u = nesterov ? g * weight + buffer * 0.95 : buffer;
          weights = weights * (1 - 0.1 * 0.1) - analytic(u, quintic_steps("jordan")) * (0.1 * factor);
          step(trained, number);
        }
        EXPECT_LT(largest_difference(trained.matrix.narrow(0, 0, 60).view({6, 10}), weights), 2e-5)
            << convention << nesterov << scale;
      }
    }
  }
}

TEST(Muon, OtherParametersLearnByAdamW) {
  recipe::AdamW adamw;
  adamw.clip = 0;
  const at::Tensor alone = normal({7}, 6);
  const auto optimizer = make_optimizer(adamw, {{1, 0, false, alone, {}}});
  Trained trained = make(muon());
  for (uint64_t number = 0; number < 3; ++number) {
    step(trained, number);
    const at::Tensor gradient = normal({7}, 200 + number);
    optimizer->step({&gradient, 1}, 1, std::vector{0.1});
  }
  EXPECT_TRUE(at::equal(trained.vector, alone));
}

// Buffers convert by 1 - momentum, since the direction does not depend on their size.
TEST(Muon, BothConventionsTrainAlikeFromConvertedBuffers) {
  recipe::Muon average = muon();
  average.convention = "average";
  Trained sum = make(muon()), other = make(average);
  for (uint64_t number = 0; number < 3; ++number) step(sum, number);
  other.matrix.copy_(sum.matrix);
  const auto from = sum.optimizer->state(), to = other.optimizer->state();
  for (size_t i = 0; i < from.size(); ++i) {
    ASSERT_EQ(from[i].name, to[i].name);
    to[i].tensor.copy_(from[i].name == "momentum_buffer" ? from[i].tensor * 0.05 : from[i].tensor);
  }
  for (uint64_t number = 3; number < 8; ++number) step(sum, number), step(other, number);
  EXPECT_LT(largest_difference(sum.matrix, other.matrix), 1e-5);
}

TEST(Muon, StateHasABufferOfMatricesAndAveragesOfTheRest) {
  Trained trained = make(muon());
  EXPECT_EQ(trained.optimizer->kind(), "muon");
  std::vector<std::string> names;
  for (const StateTensor& tensor : trained.optimizer->state()) names.push_back(tensor.path + " " + tensor.name);
  EXPECT_EQ(names, (std::vector<std::string>{"c exp_avg", "c exp_avg_sq", "a momentum_buffer", "b momentum_buffer"}));
}

}  // namespace
}  // namespace weft::optim
