// Every implementation of every operator against the last of its list, on a table of shapes and types.
#include <algorithm>
#include <cmath>
#include <functional>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "kernel/activation.h"
#include "kernel/attention.h"
#include "kernel/cross_entropy.h"
#include "kernel/dropout.h"
#include "kernel/embedding.h"
#include "kernel/norm.h"
#include "kernel/product.h"
#include "kernel/random.h"
#include "kernel/residual.h"
#include "kernel/rope.h"
#include "kernel/update.h"

namespace weft::kernel {
namespace {

using Tensors = std::vector<at::Tensor>;

// Normal numbers of a stream, the same in every call.
at::Tensor random(const std::vector<int64_t>& shape, uint64_t stream, at::ScalarType type = at::kFloat) {
  at::Tensor tensor = at::empty(shape, at::kFloat);
  fill_normal(tensor, {stream, 0}, 0, 1);
  return tensor.to(type);
}

at::Tensor indices(const std::vector<int64_t>& shape, int64_t below, uint64_t stream) {
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  return random_words({stream, 0}, 0, count).remainder(below).view(shape);
}

// The results of one implementation on fresh arguments.
template <typename Implementation>
using RunOf = std::function<Tensors(const Implementation&)>;

// The first implementation must support the call: it is the one that the row is about.
template <typename Operator>
void compare(const Operator& op, double tolerance, const RunOf<typename Operator::Implementation>& run) {
  const auto list = op.implementations();
  EXPECT_EQ(list.back().name, "reference");
  EXPECT_EQ(list.back().reason_against, nullptr);
  const Tensors wanted = run(list.back());
  for (const auto& implementation : list.first(list.size() - 1)) {
    const Tensors got = run(implementation);
    ASSERT_EQ(got.size(), wanted.size());
    double largest = 0;
    for (const at::Tensor& each : wanted) {
      if (each.defined()) largest = std::max(largest, each.to(at::kDouble).norm().item<double>());
    }
    for (size_t i = 0; i < got.size(); ++i) {
      ASSERT_EQ(got[i].defined(), wanted[i].defined());
      if (!got[i].defined()) continue;
      EXPECT_EQ(got[i].scalar_type(), wanted[i].scalar_type());
      const at::Tensor exact = wanted[i].to(at::kDouble);
      // Of a result that cancels (scores' gradients of a query that sees one key) only rounding is left.
      const double norm = exact.norm().item<double>() > 1e-5 * largest ? exact.norm().item<double>() : largest;
      const double error = (got[i].to(at::kDouble) - exact).norm().item<double>() / (norm + 1e-30);
      EXPECT_LT(error, tolerance) << op.name() << " " << implementation.name << " result " << i;
    }
  }
}

struct Row {
  std::vector<int64_t> shape;
  at::ScalarType type = at::kFloat;
  [[nodiscard]] double tolerance() const { return type == at::kFloat ? 5e-7 : 4e-3; }
};

const std::vector<Row>& rows() {
  static const std::vector<Row> table = {
      {{1, 1}},
      {{3, 7}},
      {{5, 8}},
      {{2, 33}},
      {{64, 128}},
      {{17, 288}},
      {{130, 1000}},
      {{3, 7}, at::kBFloat16},
      {{2, 33}, at::kBFloat16},
      {{64, 128}, at::kBFloat16},
  };
  return table;
}

class Operators : public ::testing::Test {
 protected:
  Operators() { at::set_num_threads(1); }
};

TEST_F(Operators, RmsNorm) {
  for (const Row& row : rows()) {
    if (row.shape[1] == 1) continue;  // the gradient vanishes
    const at::Tensor x = random(row.shape, 1, row.type), dy = random(row.shape, 2, row.type);
    const at::Tensor weight = random({row.shape[1]}, 3);
    compare(rms_norm_forward, row.tolerance(), [&](const auto& each) {
      EXPECT_TRUE(each.supports(x, weight, 1e-5, true));
      EXPECT_FALSE(each.run(x, weight, 1e-5, false).statistics.defined());
      const NormResult result = each.run(x, weight, 1e-5, true);
      return Tensors{result.output, result.statistics};
    });
    const at::Tensor statistics = rms_norm_forward(x, weight, 1e-5, true).statistics;
    for (const bool wanted : {true, false}) {
      compare(rms_norm_backward, row.tolerance(), [&](const auto& each) {
        const at::Tensor dx = dy.clone(), dweight = wanted ? at::ones({row.shape[1]}) : at::Tensor();
        each.run(dx, x, weight, statistics, {dweight, {}});
        return Tensors{dx, dweight};
      });
    }
  }
}

TEST_F(Operators, LayerNorm) {
  for (const Row& row : rows()) {
    if (row.shape[1] == 1) continue;  // the variance of one number
    const at::Tensor x = random(row.shape, 1, row.type) + 3, dy = random(row.shape, 2, row.type);
    const at::Tensor weight = random({row.shape[1]}, 3);
    for (const at::Tensor& bias : {random({row.shape[1]}, 4), at::Tensor()}) {
      compare(layer_norm_forward, row.tolerance(), [&](const auto& each) {
        const NormResult result = each.run(x, weight, bias, 1e-5, true);
        return Tensors{result.output, result.statistics};
      });
      const at::Tensor statistics = layer_norm_forward(x, weight, bias, 1e-5, true).statistics;
      compare(layer_norm_backward, row.tolerance() * 4, [&](const auto& each) {
        const at::Tensor dx = dy.clone(), dweight = at::ones({row.shape[1]});
        const at::Tensor dbias = bias.defined() ? at::ones({row.shape[1]}) : at::Tensor();
        each.run(dx, x, weight, statistics, {dweight, dbias});
        return Tensors{dx, dweight, dbias};
      });
    }
  }
}

// The heads of a query inside a wider matrix, as the norm of query and key sees them.
TEST_F(Operators, NormsOfHeadsInAWiderMatrix) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    const Row row{{}, type};
    const at::Tensor wide = random({2, 5, 7, 6}, 1, type), wide_gradient = random({2, 5, 7, 6}, 2, type);
    const at::Tensor x = wide.narrow(2, 1, 3), weight = random({6}, 3);
    compare(rms_norm_forward, row.tolerance(), [&](const auto& each) {
      EXPECT_TRUE(each.supports(x, weight, 1e-5, true));
      return Tensors{each.run(x, weight, 1e-5, true).output};
    });
    const at::Tensor statistics = rms_norm_forward(x, weight, 1e-5, true).statistics;
    for (const at::Tensor& base : {x, x.contiguous()}) {
      compare(rms_norm_backward, row.tolerance(), [&](const auto& each) {
        const at::Tensor all = wide_gradient.clone(), dweight = at::zeros({6});
        each.run(all.narrow(2, 1, 3), base, weight, statistics, {dweight, {}});
        return Tensors{all, dweight};
      });
    }
  }
}

TEST_F(Operators, Rotation) {
  const std::vector<double> inverse = {1, 0.1, 0.01};
  const RotationTable table = rotation_table(inverse, 1.5, 40, at::kCPU);
  EXPECT_FLOAT_EQ(table.cosine[7][1].item<float>(), static_cast<float>(1.5 * std::cos(0.7)));
  const at::Tensor positions = indices({2, 5}, 40, 3);
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    for (const bool back : {false, true}) {
      compare(rotate, Row{{}, type}.tolerance(), [&](const auto& each) {
        const at::Tensor wide = random({2, 5, 4, 6}, 1, type);
        each.run(wide.narrow(2, 1, 2), positions, table, back);
        return Tensors{wide};
      });
    }
  }
  // Turning back undoes turning, times the factor squared.
  const at::Tensor x = random({2, 5, 4, 6}, 1), turned = x.clone();
  rotate(turned, positions, table, false);
  rotate(turned, positions, table, true);
  EXPECT_TRUE(at::allclose(turned, x * 2.25, 1e-5, 1e-5));
}

TEST_F(Operators, Activations) {
  for (const Row& row : rows()) {
    const at::Tensor dout = random(row.shape, 1, row.type);
    const at::Tensor joined = random({row.shape[0], 2 * row.shape[1]}, 2, row.type) * 3;
    compare(swiglu_forward, row.tolerance(), [&](const auto& each) { return Tensors{each.run(joined)}; });
    compare(swiglu_backward, row.tolerance(), [&](const auto& each) {
      const at::Tensor upper = dout.clone(), both = joined.clone();
      each.run(upper, both);
      return Tensors{upper, both};
    });
    const at::Tensor x = random(row.shape, 3, row.type) * 3;
    for (const bool tanh : {true, false}) {
      compare(gelu_forward, row.tolerance(), [&](const auto& each) { return Tensors{each.run(x, tanh)}; });
      compare(gelu_backward, row.tolerance(), [&](const auto& each) {
        const at::Tensor upper = dout.clone(), before = x.clone();
        each.run(upper, before, tanh);
        return Tensors{upper, before};
      });
    }
  }
}

// Against the functions themselves, far out too.
TEST_F(Operators, ActivationsFarFromZero) {
  const at::Tensor x = at::linspace(-30, 30, 6001, at::kFloat), wide = x.to(at::kDouble);
  const at::Tensor gelu = 0.5 * wide * at::erfc(-wide / std::sqrt(2.0));
  EXPECT_TRUE(at::allclose(gelu_forward(x, false).to(at::kDouble), gelu, 3e-6, 1e-30));  // relative, in the tail too
  const at::Tensor both = at::stack({x, at::ones_like(x)}, 1).contiguous();
  EXPECT_TRUE(at::allclose(swiglu_forward(both).flatten().to(at::kDouble), wide * at::sigmoid(wide), 1e-6, 1e-30));
  const at::Tensor extreme = at::tensor({-1e30, -100.0, 100.0, 1e30, static_cast<double>(NAN)}, at::kFloat);
  const at::Tensor result = gelu_forward(extreme, true);
  EXPECT_EQ(result[0].item<float>(), 0);
  EXPECT_EQ(result[2].item<float>(), 100);
  EXPECT_TRUE(std::isnan(result[4].item<float>()));
}

TEST_F(Operators, CrossEntropy) {
  for (const int64_t width : {1, 5, 65, 1000, 5003}) {
    const at::Tensor logits = random({9, width}, 1) * 4;
    at::Tensor targets = indices({9}, width, 2);
    targets[3] = -1;
    for (const bool gradient : {false, true}) {
      for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
        compare(cross_entropy, type == at::kFloat ? 1e-6 : 4e-3, [&](const auto& each) {
          const at::Tensor owned = logits.clone();
          const CrossEntropy result = each.run(owned, targets, {gradient, 0.25, type});
          EXPECT_EQ(result.gradient.defined(), gradient);
          EXPECT_EQ(at::equal(owned, logits), !gradient);
          return Tensors{at::scalar_tensor(result.loss_sum, at::kDouble) + 1, result.gradient};
        });
      }
    }
  }
  // A logit far above the others, and far below.
  const at::Tensor logits = at::tensor({1e4, 0.0, -1e4}, at::kFloat).unsqueeze(0);
  EXPECT_NEAR(cross_entropy(logits, at::tensor({2}, at::kLong), {}).loss_sum, 2e4, 1e-3);
  EXPECT_EQ(cross_entropy(logits, at::tensor({0}, at::kLong), {}).loss_sum, 0);
}

TEST_F(Operators, Embedding) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    const double tolerance = Row{{}, type}.tolerance();
    const at::Tensor table = random({11, 9}, 1, type), places = indices({3, 4}, 11, 2), dy = random({3, 4, 9}, 3, type);
    compare(gather_rows, tolerance, [&](const auto& each) { return Tensors{each.run(table, places, 1.5)}; });
    compare(add_rows, tolerance, [&](const auto& each) {
      const at::Tensor out = dy.clone();
      each.run(out, table, places);
      return Tensors{out};
    });
    compare(scatter_add_rows, tolerance, [&](const auto& each) {
      const at::Tensor gradient = at::ones({11, 9});
      each.run(gradient, dy, places, 1.5);
      return Tensors{gradient};
    });
  }
}

TEST_F(Operators, Residual) {
  for (const Row& row : rows()) {
    const at::Tensor x = random(row.shape, 1, row.type), branch = random(row.shape, 2, row.type);
    compare(add_scaled, 4 * row.tolerance(), [&](const auto& each) { return Tensors{each.run(x, branch, 0.3)}; });
    compare(scale_in_place, row.tolerance(), [&](const auto& each) {
      const at::Tensor scaled = x.clone();
      each.run(scaled, 0.3);
      return Tensors{scaled};
    });
  }
}

TEST_F(Operators, Dropout) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    for (const int64_t features : {1, 3, 4, 70}) {
      const Dropout dropout{0.3, {5, 6}, at::tensor({9, 2}, at::kLong)};
      compare(apply_dropout, 1e-30, [&](const auto& each) {
        const at::Tensor x = random({2, 5, features}, 1, type);
        each.run(x, dropout);
        return Tensors{x};
      });
    }
  }
  const Dropout dropout{0.25, {5, 6}, at::tensor({9, 2}, at::kLong)};
  const at::Tensor x = at::ones({2, 100, 50});
  apply_dropout(x, dropout);
  EXPECT_NEAR(x.eq(0).to(at::kDouble).mean().item<double>(), 0.25, 0.01);
  EXPECT_NEAR(x.mean().item<double>(), 1, 0.02);
}

TEST_F(Operators, Products) {
  struct Sizes {
    int64_t rows, width, features;
  };
  for (const Sizes& sizes :
       {Sizes{1, 1, 1}, Sizes{1, 40, 30}, Sizes{7, 5, 3}, Sizes{300, 16, 24}, Sizes{64, 128, 96}}) {
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
      const at::Tensor x = random({sizes.rows, sizes.width}, 1, type);
      const at::Tensor weight = random({sizes.features, sizes.width}, 2, type);
      const at::Tensor dy = random({sizes.rows, sizes.features + 4}, 3, type).narrow(1, 2, sizes.features);
      for (const at::Tensor& bias : {random({sizes.features}, 4), at::Tensor()}) {
        for (const at::ScalarType out_type : {type, at::kFloat}) {
          compare(product_forward, out_type == at::kFloat ? 1e-6 : 4e-3, [&](const auto& each) {
            const at::Tensor out = at::zeros({sizes.rows, sizes.features + 3}, out_type);
            each.run(out.narrow(1, 1, sizes.features), x, weight, bias);
            return Tensors{out};
          });
        }
      }
      for (const bool add : {false, true}) {
        compare(product_input_gradient, add || type == at::kFloat ? 1e-6 : 4e-3, [&](const auto& each) {
          const at::Tensor dx = at::ones({sizes.rows, sizes.width}, add ? at::kFloat : type);
          each.run(dx, dy, weight, add);
          return Tensors{dx};
        });
        compare(product_weight_gradient, 1e-6, [&](const auto& each) {
          const at::Tensor dweight = at::ones({sizes.features, sizes.width});
          each.run(dweight, dy, x, add);
          return Tensors{dweight};
        });
      }
      compare(bias_gradient, 1e-6, [&](const auto& each) {
        const at::Tensor dbias = at::ones({sizes.features});
        each.run(dbias, dy);
        return Tensors{dbias};
      });
    }
  }
}

struct AttentionRow {
  int64_t length, heads, kv_heads, head_dim;
  int64_t earlier = 0;  // keys before the first query
  int64_t window = 0;
  bool documents = false;
  double dropout = 0;
  at::ScalarType type = at::kFloat;
};

TEST_F(Operators, Attention) {
  const std::vector<AttentionRow> table = {
      {1, 1, 1, 1},
      {5, 2, 2, 4},
      {64, 3, 3, 8},
      {65, 4, 2, 16},
      {200, 4, 1, 24},
      {1, 4, 2, 8, 90},
      {70, 4, 2, 8, 33},
      {150, 2, 2, 8, 0, 1},
      {150, 2, 1, 8, 0, 20},
      {150, 2, 1, 8, 10, 70},
      {150, 2, 2, 8, 0, 0, true},
      {150, 2, 2, 8, 0, 40, true},
      {70, 4, 2, 8, 0, 0, false, 0.3},
      {70, 4, 2, 8, 0, 20, true, 0.3},
      {70, 4, 2, 16, 0, 0, false, 0, at::kBFloat16},
  };
  for (const AttentionRow& row : table) {
    SCOPED_TRACE(::testing::Message() << row.length << " " << row.heads << " " << row.kv_heads << " " << row.head_dim
                                      << " " << row.earlier << " " << row.window << " " << row.documents << " "
                                      << row.dropout);
    const int64_t keys = row.length + row.earlier;
    AttentionInputs inputs{random({2, row.length, row.heads, row.head_dim}, 1, row.type),
                           random({2, keys, row.kv_heads, row.head_dim}, 2, row.type),
                           random({2, keys, row.kv_heads, row.head_dim}, 3, row.type)};
    AttentionOptions options;
    options.scale = 0.7;
    options.window = row.window;
    if (row.documents) options.documents = at::arange(2 * keys, at::kLong).view({2, keys}).floor_divide(37);
    options.dropout = {row.dropout, {8, 9}, at::tensor({4, 0}, at::kLong)};
    const double tolerance = row.type == at::kFloat ? 2e-6 : 8e-3;
    compare(attention_forward, tolerance, [&](const auto& each) {
      EXPECT_TRUE(each.supports(inputs.query, inputs.key, inputs.value, options));
      const AttentionResult result = each.run(inputs.query, inputs.key, inputs.value, options);
      return Tensors{result.output, result.logsumexp};
    });
    const AttentionResult result = attention_forward(inputs.query, inputs.key, inputs.value, options);
    const at::Tensor dout = random({2, row.length, row.heads, row.head_dim}, 4, row.type);
    compare(attention_backward, tolerance, [&](const auto& each) {
      const AttentionInputs gradients = each.run(dout, inputs, result, options);
      return Tensors{gradients.query, gradients.key, gradients.value};
    });
  }
}

// LibTorch's own causal attention, forward and backward.
TEST_F(Operators, AttentionEqualsThatOfTorch) {
  const at::Tensor query = random({2, 150, 4, 16}, 1), key = random({2, 150, 4, 16}, 2),
                   value = random({2, 150, 4, 16}, 3);
  AttentionOptions options;
  options.scale = 0.25;
  const AttentionResult result = attention_forward(query, key, value, options);
  const auto [output, logsumexp] = at::_scaled_dot_product_flash_attention_for_cpu(
      query.transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2), 0, true, {}, 0.25);
  EXPECT_TRUE(at::allclose(result.output, output.transpose(1, 2), 1e-5, 1e-6));
  EXPECT_TRUE(at::allclose(result.logsumexp, logsumexp.view({2, 4, 150}), 1e-5, 1e-6));
  const at::Tensor dout = random({2, 150, 4, 16}, 4);
  const AttentionInputs gradients = attention_backward(dout, {query, key, value}, result, options);
  const auto [dquery, dkey, dvalue] = at::_scaled_dot_product_flash_attention_for_cpu_backward(
      dout.transpose(1, 2), query.transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2), output, logsumexp, 0,
      true, {}, 0.25);
  EXPECT_TRUE(at::allclose(gradients.query, dquery.transpose(1, 2), 1e-4, 1e-5));
  EXPECT_TRUE(at::allclose(gradients.key, dkey.transpose(1, 2), 1e-4, 1e-5));
  EXPECT_TRUE(at::allclose(gradients.value, dvalue.transpose(1, 2), 1e-4, 1e-5));
}

TEST_F(Operators, Updates) {
  for (const int64_t count : {1, 7, 100, 1003}) {
    AdamWStep step{0.5F, 0.1F, 0.95F, 0.05F, 0.999F, 1e-2F, 0.3F, 1e-8F};
    compare(adamw_update, 1e-6, [&](const auto& each) {
      const at::Tensor parameter = random({count}, 1), average = random({count}, 3),
                       square = random({count}, 4).square();
      each.run(step, parameter, random({count}, 2), average, square);
      return Tensors{parameter, average, square};
    });
    compare(sum_of_squares, 1e-14,
            [&](const auto& each) { return Tensors{at::scalar_tensor(each.run(random({count}, 1)), at::kDouble)}; });
  }
}

// Loops on two threads give the bits of one.
TEST_F(Operators, ThreadsChangeNoBit) {
  const auto run = [](int threads) {
    at::set_num_threads(threads);
    Tensors results;
    const at::Tensor x = random({4000, 96}, 1), weight = random({96}, 2);
    const NormResult rms = rms_norm_forward(x, weight, 1e-5, true),
                     layer = layer_norm_forward(x, weight, weight, 1e-5, true);
    results.insert(results.end(), {rms.output, rms.statistics, layer.output, layer.statistics});
    for (const bool is_rms : {true, false}) {
      const at::Tensor dx = random({4000, 96}, 3), dweight = at::zeros({96}), dbias = at::zeros({96});
      if (is_rms) rms_norm_backward(dx, x, weight, rms.statistics, {dweight, {}});
      if (!is_rms) layer_norm_backward(dx, x, weight, layer.statistics, {dweight, dbias});
      results.insert(results.end(), {dx, dweight, dbias});
    }
    const at::Tensor upper = random({4000, 96}, 4), before = random({4000, 96}, 5);
    results.push_back(gelu_forward(before, false));
    gelu_backward(upper, before, false);
    const at::Tensor joined = random({4000, 192}, 6);
    results.push_back(swiglu_forward(joined));
    swiglu_backward(upper, joined);
    results.insert(results.end(), {upper, before, joined, add_scaled(upper, before, 0.3)});
    const at::Tensor logits = random({4000, 96}, 7), dbias = at::zeros({96});
    const CrossEntropy loss = cross_entropy(logits, indices({4000}, 96, 8), {true, 0.1, at::kFloat});
    bias_gradient(dbias, logits);
    results.insert(results.end(), {at::scalar_tensor(loss.loss_sum, at::kDouble), logits, dbias});
    const AttentionInputs inputs{random({3, 70, 4, 8}, 9), random({3, 70, 2, 8}, 10), random({3, 70, 2, 8}, 11)};
    const AttentionResult mixture = attention_forward(inputs.query, inputs.key, inputs.value, {});
    const AttentionInputs gradients = attention_backward(random({3, 70, 4, 8}, 12), inputs, mixture, {});
    results.insert(results.end(), {mixture.output, mixture.logsumexp, gradients.query, gradients.key, gradients.value});
    const at::Tensor parameter = random({400000}, 13), average = random({400000}, 14), square = average * average;
    adamw_update({1, 0.1F, 0.9F, 0.1F, 0.99F, 0.01F, 0.5F, 1e-8F}, parameter, average, average.clone(), square);
    results.insert(results.end(), {parameter, square, at::scalar_tensor(sum_of_squares(parameter), at::kDouble)});
    return results;
  };
  const Tensors one = run(1), two = run(2);
  ASSERT_EQ(one.size(), two.size());
  for (size_t i = 0; i < one.size(); ++i) EXPECT_TRUE(at::equal(one[i], two[i])) << i;
}

}  // namespace
}  // namespace weft::kernel
