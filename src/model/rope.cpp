#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/check.h"
#include "model/nodes.h"

namespace weft::model {
namespace {

constexpr double kTurn = 2 * std::numbers::pi;

std::vector<double> plain_frequencies(double theta, int64_t head_dim) {
  WEFT_CHECK(head_dim > 0 && head_dim % 2 == 0);
  std::vector<double> inverse(static_cast<size_t>(head_dim / 2));
  for (size_t i = 0; i < inverse.size(); ++i) {
    inverse[i] = std::pow(theta, -2.0 * static_cast<double>(i) / static_cast<double>(head_dim));
  }
  return inverse;
}

}  // namespace

RopeFrequencies PlainRope::frequencies(int64_t head_dim) const { return {plain_frequencies(theta, head_dim), 1}; }

RopeFrequencies LinearRope::frequencies(int64_t head_dim) const {
  std::vector<double> inverse = plain_frequencies(theta, head_dim);
  for (double& frequency : inverse) frequency /= factor;
  return {std::move(inverse), 1};
}

RopeFrequencies Llama3Rope::frequencies(int64_t head_dim) const {
  std::vector<double> inverse = plain_frequencies(theta, head_dim);
  const double original = static_cast<double>(original_positions);
  for (double& frequency : inverse) {
    const double turns = original * frequency / kTurn;  // over the original positions
    if (turns > high_frequency_factor) continue;
    const double kept = (turns - low_frequency_factor) / (high_frequency_factor - low_frequency_factor);
    frequency = turns < low_frequency_factor ? frequency / factor : (1 - kept) * frequency / factor + kept * frequency;
  }
  return {std::move(inverse), 1};
}

double YarnRope::effective_attention_factor() const {
  return attention_factor.value_or(factor <= 1 ? 1 : 0.1 * std::log(factor) + 1);
}

RopeFrequencies YarnRope::frequencies(int64_t head_dim) const {
  std::vector<double> inverse = plain_frequencies(theta, head_dim);
  // The (fractional) index of the frequency that makes this many turns over the original positions.
  const auto index_of_turns = [&](double turns) {
    const double original = static_cast<double>(original_positions);
    return static_cast<double>(head_dim) * std::log(original / (turns * kTurn)) / (2 * std::log(theta));
  };
  double low = index_of_turns(beta_fast);
  double high = index_of_turns(beta_slow);
  if (truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, static_cast<double>(head_dim - 1));
  if (low == high) high += 0.001;
  for (size_t i = 0; i < inverse.size(); ++i) {
    const double stretched = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
    inverse[i] = inverse[i] / factor * stretched + inverse[i] * (1 - stretched);
  }
  return {std::move(inverse), effective_attention_factor()};
}

}  // namespace weft::model
