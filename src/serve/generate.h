// Continuing a text, token by token (docs/generation.md).
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizer.h"
#include "model/description.h"
#include "nn/parameter_store.h"
#include "serve/sampling.h"

namespace weft::serve {

struct GenerationOptions {
  SamplingOptions sampling;
  int64_t max_tokens = 256;
  int64_t sequence = 0;              // keys the random numbers beside the seed
  std::vector<TokenId> end_of_text;  // any of these ends the text; empty: nothing does
};

enum class StopReason {
  kLength,  // max_tokens were made
  kEnd,     // an end-of-text token was chosen: it is the last of the tokens
};

struct Generation {
  std::vector<TokenId> tokens;  // the new ones
  StopReason stop = StopReason::kLength;
  bool forgot = false;  // the text outgrew the model's context: its beginning was forgotten
};

// Told of each new token as it is chosen; returns false to stop (as if at the length).
using TokenListener = std::function<bool(TokenId)>;

// InputError: an empty prompt, a token beyond the vocabulary, a prompt longer than the model's context, options out of
// range. Where prompt and new tokens outgrow the context, the model goes on from the text's last half context.
Generation generate(const model::ModelDescription& model, nn::ParameterStore& parameters,
                    std::span<const TokenId> prompt, const GenerationOptions& options,
                    const TokenListener& listener = {});

// The same from text to text: the pieces passed to `listener`, joined, are the result. A piece never ends inside a
// character.
struct TextGeneration {
  Generation generation;
  std::string text;  // of the new tokens, without the end-of-text token
};
TextGeneration generate_text(const model::ModelDescription& model, nn::ParameterStore& parameters,
                             const data::Tokenizer& tokenizer, std::span<const TokenId> prompt,
                             const GenerationOptions& options,
                             const std::function<void(std::string_view)>& listener = {});

}  // namespace weft::serve
