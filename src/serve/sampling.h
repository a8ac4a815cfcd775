// The choice of the next token. A pure function: no generator state exists (docs/generation.md).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/tokenizer.h"

namespace weft::serve {

using data::TokenId;

struct SamplingOptions {
  double temperature = 0.8;  // 0: always the likeliest token, the first of equals
  int64_t top_k = 0;         // only the k likeliest; 0: all
  double top_p = 1;          // only the fewest likeliest tokens whose probability together is at least this
  double repetition_penalty =
      1;  // a seen token's logit is divided by it if positive, else multiplied: CTRL, arXiv 1909.05858
  uint64_t seed = 1;
};

// InputError names the option that is out of range.
void check(const SamplingOptions& options);

// `earlier` are the tokens so far, prompt included. `position` is the index of the token to choose in its sequence and
// `sequence` the number of the sequence: with the seed, they key the random number. The order of the steps is that of
// Hugging Face's generate: repetition penalty, temperature, top-k, top-p. Error where a logit is not a number.
[[nodiscard]] TokenId choose_token(std::span<const float> logits, std::span<const TokenId> earlier,
                                   const SamplingOptions& options, int64_t position, int64_t sequence = 0);

// The distribution that choose_token draws from (temperature > 0): probabilities, zero where a token is excluded.
[[nodiscard]] std::vector<double> sampling_distribution(std::span<const float> logits, std::span<const TokenId> earlier,
                                                        const SamplingOptions& options);

}  // namespace weft::serve
