#include "serve/sampling.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>
#include <string>

#include <fmt/format.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/philox.h"

namespace weft::serve {

namespace {

std::vector<double> penalised(std::span<const float> logits, std::span<const TokenId> earlier, double penalty) {
  std::vector<double> result(logits.begin(), logits.end());
  if (penalty == 1) return result;
  for (const TokenId token : std::set<TokenId>(earlier.begin(), earlier.end())) {
    if (token < result.size()) result[token] = result[token] > 0 ? result[token] / penalty : result[token] * penalty;
  }
  return result;
}

// Token ids, likeliest first, the lower id of equals first.
std::vector<TokenId> likeliest_first(const std::vector<double>& scores) {
  std::vector<TokenId> order(scores.size());
  std::iota(order.begin(), order.end(), TokenId{0});
  std::stable_sort(order.begin(), order.end(), [&](TokenId a, TokenId b) { return scores[a] > scores[b]; });
  return order;
}

// As Hugging Face's, all tokens that tie with the k-th stay.
void keep_top_k(std::vector<double>& scores, int64_t top_k) {
  if (top_k <= 0 || static_cast<size_t>(top_k) >= scores.size()) return;
  std::vector<double> sorted = scores;
  std::nth_element(sorted.begin(), sorted.begin() + (top_k - 1), sorted.end(), std::greater<>());
  const double least = sorted[static_cast<size_t>(top_k) - 1];
  for (double& score : scores) {
    if (score < least) score = -std::numeric_limits<double>::infinity();
  }
}

std::vector<double> softmax(const std::vector<double>& scores) {
  const double highest = *std::max_element(scores.begin(), scores.end());
  std::vector<double> probabilities(scores.size());
  double sum = 0;
  for (size_t i = 0; i < scores.size(); ++i) sum += probabilities[i] = std::exp(scores[i] - highest);
  for (double& probability : probabilities) probability /= sum;
  return probabilities;
}

void keep_top_p(std::vector<double>& probabilities, double top_p) {
  if (top_p >= 1) return;
  double sum = 0, kept = 0;
  std::vector<bool> keep(probabilities.size());
  for (const TokenId token : likeliest_first(probabilities)) {
    if (sum >= top_p && sum > 0) break;
    sum += probabilities[token];
    keep[token] = true;
  }
  for (size_t i = 0; i < probabilities.size(); ++i) kept += keep[i] ? probabilities[i] : 0;
  for (size_t i = 0; i < probabilities.size(); ++i) probabilities[i] = keep[i] ? probabilities[i] / kept : 0;
}

void check_numbers(std::span<const float> logits) {
  const bool broken =
      logits.empty() || std::any_of(logits.begin(), logits.end(), [](float x) { return std::isnan(x); });
  if (broken) throw Error("the model's logits are not numbers: its weights are damaged or have diverged");
}

}  // namespace

void check(const SamplingOptions& options) {
  const auto fail = [](std::string_view name, double value, std::string_view right) {
    throw InputError(fmt::format("{} is {}, it must be {}", name, value, right));
  };
  if (!(options.temperature >= 0) || std::isinf(options.temperature)) {
    fail("temperature", options.temperature, "0 or more");
  }
  if (options.top_k < 0) fail("top-k", static_cast<double>(options.top_k), "0 or more");
  if (!(options.top_p > 0 && options.top_p <= 1)) fail("top-p", options.top_p, "above 0 and at most 1");
  if (!(options.repetition_penalty > 0) || std::isinf(options.repetition_penalty)) {
    fail("repetition penalty", options.repetition_penalty, "above 0");
  }
}

std::vector<double> sampling_distribution(std::span<const float> logits, std::span<const TokenId> earlier,
                                          const SamplingOptions& options) {
  check_numbers(logits);
  auto scores = penalised(logits, earlier, options.repetition_penalty);
  for (double& score : scores) score /= options.temperature;
  keep_top_k(scores, options.top_k);
  auto probabilities = softmax(scores);
  keep_top_p(probabilities, options.top_p);
  return probabilities;
}

TokenId choose_token(std::span<const float> logits, std::span<const TokenId> earlier, const SamplingOptions& options,
                     int64_t position, int64_t sequence) {
  if (options.temperature == 0) {
    check_numbers(logits);
    const auto scores = penalised(logits, earlier, options.repetition_penalty);
    return static_cast<TokenId>(std::max_element(scores.begin(), scores.end()) - scores.begin());
  }
  const auto probabilities = sampling_distribution(logits, earlier, options);
  const RandomKey key = random_key(options.seed, RandomPurpose::kGeneration, static_cast<uint64_t>(position),
                                   xxh64(std::to_string(sequence)));
  const double uniform = (random_word(key, 0) + 0.5) * 0x1p-32;
  double sum = 0;
  TokenId last = 0;
  for (size_t i = 0; i < probabilities.size(); ++i) {
    if (probabilities[i] == 0) continue;
    sum += probabilities[i];
    last = static_cast<TokenId>(i);
    if (uniform < sum) break;
  }
  return last;
}

}  // namespace weft::serve
