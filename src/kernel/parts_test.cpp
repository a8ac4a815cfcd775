// Operators on the part of a tensor that a rank holds, against those on the whole.
#include <cstring>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "kernel/attention.h"
#include "kernel/blas.h"
#include "kernel/cross_entropy.h"
#include "kernel/dropout.h"
#include "kernel/random.h"

namespace weft::kernel {
namespace {

at::Tensor random(const std::vector<int64_t>& shape, uint64_t stream) {
  at::set_num_threads(1);
  at::Tensor tensor = at::empty(shape, at::kFloat);
  fill_normal(tensor, {stream, 0}, 0, 1);
  return tensor;
}

double error(const at::Tensor& got, const at::Tensor& wanted) {
  EXPECT_EQ(got.sizes(), wanted.sizes());
  return (got.to(at::kDouble) - wanted).norm().item<double>() / (wanted.to(at::kDouble).norm().item<double>() + 1e-30);
}

TEST(Parts, DropoutFollowsThePositions) {
  Dropout dropout{0.3, {5, 6}, at::tensor({9, 2}, at::kLong)};
  const at::Tensor whole = at::ones({2, 20, 7});
  apply_dropout(whole, dropout);
  dropout.length = 20;
  dropout.positions = {{3, 8}, {15, 20}};
  const at::Tensor wanted = at::cat({whole.narrow(1, 3, 5), whole.narrow(1, 15, 5)}, 1);
  for (const auto& each : apply_dropout.implementations()) {
    const at::Tensor part = at::ones({2, 10, 7});
    each.run(part, dropout);
    EXPECT_TRUE(at::equal(part, wanted)) << each.name;
  }
}

struct AttentionPart {
  Range queries;  // positions; the keys are those up to the last of them
  Range heads, kv_heads;
};

// Parts of the heads, not all of which begin with a key/value head's first query head, and of the sequence.
TEST(Parts, AttentionOfHeadsAndPositions) {
  constexpr int64_t kLength = 90, kHeads = 6, kKeyHeads = 2, kSize = 8;
  const AttentionInputs inputs{random({2, kLength, kHeads, kSize}, 1), random({2, kLength, kKeyHeads, kSize}, 2),
                               random({2, kLength, kKeyHeads, kSize}, 3)};
  const at::Tensor doutput = random({2, kLength, kHeads, kSize}, 4);
  AttentionOptions options;
  options.window = 40;
  options.documents = at::arange(2 * kLength, at::kLong).view({2, kLength}).floor_divide(37);
  options.dropout = {0.3, {8, 9}, at::tensor({4, 0}, at::kLong)};
  const AttentionResult whole = attention_forward(inputs.query, inputs.key, inputs.value, options);
  const AttentionInputs gradients = attention_backward(doutput, inputs, whole, options);
  for (const AttentionPart& part : {AttentionPart{{0, kLength}, {2, 5}, {0, 2}}, AttentionPart{{0, 70}, {3, 6}, {1, 2}},
                                    AttentionPart{{60, 90}, {0, 6}, {0, 2}}}) {
    const auto queries = [&](const at::Tensor& x) {
      return x.narrow(1, part.queries.begin, part.queries.size()).narrow(2, part.heads.begin, part.heads.size());
    };
    const auto keys = [&](const at::Tensor& x) {
      return x.narrow(1, 0, part.queries.end).narrow(2, part.kv_heads.begin, part.kv_heads.size());
    };
    AttentionOptions local = options;
    local.documents = options.documents.narrow(1, 0, part.queries.end);
    local.place = {kLength, kHeads, part.heads.begin, kHeads / kKeyHeads};
    const AttentionInputs held{queries(inputs.query), keys(inputs.key), keys(inputs.value)};
    // The gradients of keys are sums over the part's queries and heads.
    const at::Tensor alone = at::zeros_like(doutput);
    queries(alone).copy_(queries(doutput));
    const AttentionInputs wanted = attention_backward(alone, inputs, whole, options);
    for (size_t i = 0; i < 2; ++i) {
      const auto& forward = attention_forward.implementations()[i];
      const AttentionResult result = forward.run(held.query, held.key, held.value, local);
      EXPECT_LT(error(result.output, queries(whole.output)), 1e-6) << forward.name;
      const auto& backward = attention_backward.implementations()[i];
      const AttentionInputs got = backward.run(queries(doutput), held, result, local);
      EXPECT_LT(error(got.query, queries(gradients.query)), 2e-6) << backward.name;
      EXPECT_LT(error(got.key, keys(wanted.key)), 2e-6) << backward.name;
      EXPECT_LT(error(got.value, keys(wanted.value)), 2e-6) << backward.name;
    }
  }
}

TEST(Parts, CrossEntropyOfDividedColumns) {
  constexpr int64_t kRows = 21, kColumns = 50;
  const at::Tensor logits = random({kRows, kColumns}, 1) * 4;
  const at::Tensor targets = random_words({2, 0}, 0, kRows).remainder(kColumns + 1) - 1;
  const CrossEntropy whole = cross_entropy(logits.clone(), targets, {true, 0.3, at::kFloat});
  for (size_t implementation = 0; implementation < 2; ++implementation) {
    std::vector<at::Tensor> statistics, gradients;
    const std::vector<Range> parts = {{0, 17}, {17, 17}, {17, 50}};
    for (const Range& part : parts) {
      statistics.push_back(logit_statistics.implementations()[implementation].run(
          logits.narrow(1, part.begin, part.size()), targets - part.begin));
    }
    const SoftmaxRows rows =
        combine_statistics.implementations()[implementation].run(at::stack(statistics), targets, 0.3);
    EXPECT_NEAR(rows.losses.sum().item<double>(), whole.loss_sum, 1e-6 * whole.loss_sum);
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
      gradients.clear();
      for (const Range& part : parts) {
        if (part.size() == 0) continue;
        gradients.push_back(softmax_gradient.implementations()[implementation].run(
            logits.narrow(1, part.begin, part.size()).clone(), targets - part.begin, rows, type));
        EXPECT_EQ(gradients.back().scalar_type(), type);
      }
      EXPECT_LT(error(at::cat(gradients, 1), whole.gradient), type == at::kFloat ? 1e-6 : 4e-3);
    }
  }
}

// What a process without MKL's strict mode computes with: the right numbers, and slices that equal the whole's.
TEST(Parts, PlainProducts) {
  constexpr int64_t kRows = 11, kColumns = 9, kDepth = 40;
  const at::Tensor a = random({kRows, kDepth}, 1), b = random({kColumns, kDepth}, 2), c = random({kRows, kColumns}, 3);
  const at::Tensor narrow_a = a.to(at::kBFloat16), narrow_b = b.to(at::kBFloat16);
  const auto bits = [](const at::Tensor& x) { return static_cast<const BFloat16*>(x.data_ptr()); };
  use_plain_products(true);
  const bool equal = slices_equal_products();
  const at::Tensor sum = c.clone(), product = at::empty_like(c);
  multiply(kRows, kColumns, kDepth, 2, {a.const_data_ptr<float>(), kDepth}, {b.const_data_ptr<float>(), kDepth, true},
           3, sum.data_ptr<float>(), kColumns);
  multiply(kRows, kColumns, kDepth, 1, {bits(narrow_a), kDepth}, {bits(narrow_b), kDepth, true}, 0,
           product.data_ptr<float>(), kColumns);
  use_plain_products(false);
  EXPECT_TRUE(equal);
  EXPECT_LT(error(sum, at::mm(a, b.t()) * 2 + c * 3), 1e-6);
  EXPECT_LT(error(product, at::mm(narrow_a.to(at::kFloat), narrow_b.to(at::kFloat).t())), 1e-6);
}

}  // namespace
}  // namespace weft::kernel
