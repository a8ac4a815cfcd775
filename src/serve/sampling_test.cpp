#include "serve/sampling.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/json.h"

namespace weft::serve {
namespace {

TEST(Sampling, DistributionsAreThoseOfHuggingFace) {
  const Json goldens = read_json_file("tests/data/sampling/goldens.json");
  for (const Json& row : goldens.at("cases")) {
    SamplingOptions options;
    options.temperature = row.at("temperature");
    options.top_k = row.at("top_k");
    options.top_p = row.at("top_p");
    options.repetition_penalty = row.at("repetition_penalty");
    const auto logits = row.at("logits").get<std::vector<float>>();
    const auto earlier = row.at("earlier").get<std::vector<TokenId>>();
    const auto expected = row.at("probabilities").get<std::vector<double>>();
    const auto found = sampling_distribution(logits, earlier, options);
    // Where equal logits straddle the border of top-p, which of them stay is a matter of the sort: compare as sets.
    auto sorted_found = found, sorted_expected = expected;
    std::sort(sorted_found.begin(), sorted_found.end());
    std::sort(sorted_expected.begin(), sorted_expected.end());
    for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(sorted_found[i], sorted_expected[i], 1e-6) << row.dump();
    for (size_t i = 0; i < expected.size(); ++i) {
      const bool tied = i == 4 || i == 9 || i == 12;
      EXPECT_NEAR(found[i], expected[i], tied ? 1 : 1e-6) << i << " of " << row.dump();
    }
  }
}

TEST(Sampling, TemperatureZeroTakesTheFirstOfTheLikeliest) {
  SamplingOptions options;
  options.temperature = 0;
  const std::vector<float> logits = {1, 3, 2, 3};
  EXPECT_EQ(choose_token(logits, {}, options, 0), 1u);
  options.repetition_penalty = 2;
  const std::vector<TokenId> earlier = {1};
  EXPECT_EQ(choose_token(logits, earlier, options, 0), 3u);
}

// Frequencies over many positions follow the distribution: chi-squared with 4 degrees of freedom, 99.99 % below 23.5.
TEST(Sampling, FrequenciesFollowTheDistribution) {
  SamplingOptions options;
  options.temperature = 1;
  const std::vector<float> logits = {0, 1, 2, -1, 0.5};
  const auto probabilities = sampling_distribution(logits, {}, options);
  for (const int64_t sequence : {0, 1}) {
    std::vector<double> counts(logits.size());
    constexpr int kDraws = 20000;
    for (int64_t position = 0; position < kDraws; ++position) {
      counts[choose_token(logits, {}, options, position, sequence)] += 1;
    }
    double chi_squared = 0;
    for (size_t i = 0; i < counts.size(); ++i) {
      const double expected = probabilities[i] * kDraws;
      chi_squared += (counts[i] - expected) * (counts[i] - expected) / expected;
    }
    EXPECT_LT(chi_squared, 23.5);
  }
}

TEST(Sampling, DependsOnSeedPositionAndSequenceOnly) {
  SamplingOptions options;
  options.temperature = 1;
  const std::vector<float> logits(1000, 0.0F);
  const auto chosen = choose_token(logits, {}, options, 5, 2);
  EXPECT_EQ(choose_token(logits, {}, options, 5, 2), chosen);
  EXPECT_NE(choose_token(logits, {}, options, 6, 2), chosen);
  EXPECT_NE(choose_token(logits, {}, options, 5, 3), chosen);
  options.seed = 2;
  EXPECT_NE(choose_token(logits, {}, options, 5, 2), chosen);
}

TEST(Sampling, RefusesWhatMakesNoSense) {
  const auto refused = [](auto change) {
    SamplingOptions options;
    change(options);
    try {
      check(options);
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  EXPECT_EQ(refused([](SamplingOptions&) {}), "accepted");
  EXPECT_EQ(refused([](SamplingOptions& o) { o.temperature = -1; }), "temperature is -1, it must be 0 or more");
  EXPECT_EQ(refused([](SamplingOptions& o) { o.temperature = std::nan(""); }),
            "temperature is nan, it must be 0 or more");
  EXPECT_EQ(refused([](SamplingOptions& o) { o.top_p = 0; }), "top-p is 0, it must be above 0 and at most 1");
  EXPECT_EQ(refused([](SamplingOptions& o) { o.top_k = -2; }), "top-k is -2, it must be 0 or more");
  EXPECT_EQ(refused([](SamplingOptions& o) { o.repetition_penalty = 0; }),
            "repetition penalty is 0, it must be above 0");
  const std::vector<float> broken = {1, std::numeric_limits<float>::quiet_NaN()};
  EXPECT_THROW((void)choose_token(broken, {}, SamplingOptions{}, 0), Error);
}

}  // namespace
}  // namespace weft::serve
