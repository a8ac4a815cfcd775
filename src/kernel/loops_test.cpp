// The loops of every level that this processor runs: random words bit by bit, the rest within rounding; and results
// that do not depend on an element's place.
#include "kernel/loops/loops.h"

#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "base/philox.h"
#include "kernel/dropout.h"
#include "kernel/random.h"

namespace weft::kernel {
namespace {

std::vector<float> numbers(size_t count, uint64_t stream, float scale = 1) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = scale * random_normal({stream, 0}, i);
  return values;
}

TEST(Loops, HaveALevelAndTheBestIsLast) {
  const Loops* best = nullptr;
  for (const Loops* level : loop_levels()) best = level;
  ASSERT_NE(best, nullptr);
  EXPECT_EQ(best, &loops());
  EXPECT_EQ(std::string(best->level).rfind("level_", 0), 0U);
}

TEST(Loops, RandomWordsAreThoseOfTheDefinition) {
  const RandomKey key{0x0123456789abcdef, 0xfffffffffffffff0};  // the block number carries, and wraps
  for (const Loops* level : loop_levels()) {
    for (const uint64_t first : {0ULL, 1ULL, 2ULL, 7ULL, 61ULL, 64ULL, 0xfffffffdULL, 0x3ffffffffULL}) {
      for (const int64_t count : {0, 1, 3, 64, 130}) {
        std::vector<uint32_t> words(static_cast<size_t>(count));
        std::vector<float> uniform(static_cast<size_t>(count));
        level->philox_words(stream_of(key), first, count, words.data());
        level->philox_uniform(stream_of(key), first, count, uniform.data());
        for (int64_t i = 0; i < count; ++i) {
          const uint32_t wanted = random_word(key, first + static_cast<uint64_t>(i));
          ASSERT_EQ(words[static_cast<size_t>(i)], wanted) << level->level << " " << first << " " << i;
          ASSERT_EQ(uniform[static_cast<size_t>(i)], uniform_of_word(wanted));
        }
      }
    }
  }
}

TEST(Random, UniformEqualsThatOfATen) {
  const at::Tensor key = at::tensor(at::ArrayRef<int64_t>({1234, 56}), at::kLong).to(at::kUInt64);
  at::Tensor wanted = at::empty({1001}, at::kFloat), got = at::empty({997}, at::kFloat);
  at::_philox_uniform_(wanted, key, 0, 1);
  fill_uniform(got, {1234, 56}, 4);
  EXPECT_TRUE(at::equal(got, wanted.narrow(0, 4, 997)));
}

TEST(Random, NormalIsThatOfTheDefinition) {
  at::Tensor tensor = at::empty({2101}, at::kFloat);
  fill_normal(tensor, {3, 4}, 6, 0.5);
  for (int64_t i = 0; i < tensor.numel(); ++i) {
    ASSERT_EQ(tensor[i].item<float>(), random_normal({3, 4}, static_cast<uint64_t>(i) + 6) * 0.5F);
  }
}

TEST(Random, DropoutMaskBelongsToTheSample) {
  const Dropout both{0.4, {1, 2}, at::tensor({7, 3}, at::kLong)};
  const Dropout one{0.4, {1, 2}, at::tensor({3}, at::kLong)};
  const at::Tensor whole = dropout_factors(both, 6, 5), part = dropout_factors(one, 6, 5);
  EXPECT_TRUE(at::equal(whole[1], part[0]));
  EXPECT_FALSE(at::equal(whole[0], part[0]));
}

// Elementwise loops on the same numbers at another place of a buffer, in another number: bit by bit the same.
TEST(Loops, ResultsDoNotDependOnThePlace) {
  constexpr int64_t kCount = 131;
  const std::vector<float> x = numbers(kCount, 1, 3), y = numbers(kCount, 2);
  for (const Loops* level : loop_levels()) {
    const auto run = [&](int64_t begin, int64_t end) {
      const auto count = static_cast<size_t>(end - begin);
      std::vector<std::vector<float>> results;
      std::vector<float> out(count), first(x.begin() + begin, x.begin() + end),
          second(y.begin() + begin, y.begin() + end);
      for (const bool tanh : {false, true}) {
        level->float32.gelu_forward(first.data(), end - begin, tanh, out.data());
        results.push_back(out);
        std::vector<float> upper = second, before = first;
        level->float32.gelu_backward(upper.data(), before.data(), end - begin, tanh);
        results.push_back(upper);
        results.push_back(before);
      }
      level->float32.swiglu_forward(first.data(), second.data(), 1, end - begin, end - begin, out.data());
      results.push_back(out);
      level->float32.add_scaled(first.data(), second.data(), 0.3F, end - begin, out.data());
      results.push_back(out);
      std::vector<float> parameter = first, average = second, square = numbers(kCount, 3);
      square = std::vector<float>(square.begin() + begin, square.begin() + end);
      for (float& each : square) each *= each;
      level->adamw({1, 0.1F, 0.9F, 0.1F, 0.99F, 0.01F, 0.5F, 1e-8F}, end - begin, parameter.data(), second.data(),
                   average.data(), square.data());
      results.push_back(parameter);
      return results;
    };
    const auto whole = run(0, kCount);
    for (const auto& [begin, end] : {std::pair<int64_t, int64_t>{0, 17}, {3, 4}, {5, 131}, {64, 130}}) {
      const auto part = run(begin, end);
      for (size_t i = 0; i < part.size(); ++i) {
        for (int64_t j = begin; j < end; ++j) {
          ASSERT_EQ(part[i][static_cast<size_t>(j - begin)], whole[i][static_cast<size_t>(j)])
              << level->level << " result " << i << " element " << j;
        }
      }
    }
  }
}

TEST(Loops, LevelsAgree) {
  constexpr int64_t kCount = 203;
  const std::vector<float> x = numbers(kCount, 1, 4), weight = numbers(kCount, 2);
  const RowLayout row{1, 1, kCount, kCount};
  std::vector<std::vector<float>> first;
  for (const Loops* level : loop_levels()) {
    std::vector<std::vector<float>> results(5, std::vector<float>(kCount));
    level->float32.rms_norm_forward(x.data(), row, weight.data(), 1e-5F, results[0].data(), row, nullptr);
    level->float32.layer_norm_forward(x.data(), row, weight.data(), nullptr, 1e-5F, results[1].data(), row, nullptr);
    level->float32.gelu_forward(x.data(), kCount, false, results[2].data());
    const double loss = level->float32.cross_entropy(x.data(), kCount, 5, 1, results[3].data());
    results[4][0] = static_cast<float>(loss);
    if (first.empty()) first = results;
    for (size_t i = 0; i < results.size(); ++i) {
      for (size_t j = 0; j < results[i].size(); ++j)
        ASSERT_NEAR(results[i][j], first[i][j], 2e-6) << level->level << " " << i;
    }
  }
}

TEST(Loops, BFloat16IsRoundedToTheNearest) {
  const std::vector<float> x = {1.0F, 1.00390625F, 1.01171875F, -2.5e-40F, 3.4e38F, INFINITY, NAN};
  for (const Loops* level : loop_levels()) {
    std::vector<BFloat16> out(x.size());
    const auto count = static_cast<int64_t>(x.size());
    level->bfloat16.from_float(x.data(), count, out.data(), {1, 1, count, count});
    const at::Tensor wanted = at::tensor(at::ArrayRef<float>(x), at::kFloat).to(at::kBFloat16);
    for (size_t i = 0; i + 1 < x.size(); ++i) {
      EXPECT_EQ(out[i].bits, wanted.const_data_ptr<at::BFloat16>()[i].x) << i;
    }
    std::vector<float> back(x.size());
    level->bfloat16.to_float(out.data(), {1, 1, count, count}, back.data(), count);
    EXPECT_TRUE(std::isnan(back.back()));
    EXPECT_EQ(back[5], INFINITY);
  }
}

}  // namespace
}  // namespace weft::kernel
