#include "serve/generate.h"

#include <algorithm>

#include <ATen/core/Tensor.h>
#include <fmt/format.h>

#include "base/error.h"
#include "serve/forward_pass.h"

namespace weft::serve {

namespace {

void check_prompt(const model::ModelDescription& model, std::span<const TokenId> prompt) {
  if (prompt.empty()) throw InputError("the prompt is empty: give at least one token to continue");
  for (const TokenId token : prompt) {
    if (token >= model.vocabulary) {
      throw InputError(
          fmt::format("token {} of the prompt is beyond the model's vocabulary of {}", token, model.vocabulary));
    }
  }
  if (model.maximum_positions > 0 && std::cmp_greater(prompt.size(), model.maximum_positions)) {
    throw InputError(fmt::format("the prompt has {} tokens, more than the model's context of {}", prompt.size(),
                                 model.maximum_positions));
  }
}

}  // namespace

Generation generate(const model::ModelDescription& model, nn::ParameterStore& parameters,
                    std::span<const TokenId> prompt, const GenerationOptions& options, const TokenListener& listener) {
  check(options.sampling);
  check_prompt(model, prompt);
  Generation result;
  GrowingSequence sequence(model, parameters);
  std::vector<TokenId> text(prompt.begin(), prompt.end());
  std::span<const TokenId> fresh = text;  // not yet seen by the model
  while (std::cmp_less(result.tokens.size(), options.max_tokens)) {
    if (model.maximum_positions > 0 && sequence.length() == model.maximum_positions) {
      sequence.clear();
      result.forgot = true;
      const auto half = std::max<int64_t>(1, model.maximum_positions / 2);
      fresh = std::span<const TokenId>(text).last(static_cast<size_t>(half));
    }
    const at::Tensor logits = sequence.append(fresh);
    const std::span<const float> row(logits.const_data_ptr<float>(), static_cast<size_t>(logits.numel()));
    const TokenId token =
        choose_token(row, text, options.sampling, static_cast<int64_t>(text.size()), options.sequence);
    text.push_back(token);
    fresh = std::span<const TokenId>(text).last(1);
    result.tokens.push_back(token);
    if (std::find(options.end_of_text.begin(), options.end_of_text.end(), token) != options.end_of_text.end()) {
      result.stop = StopReason::kEnd;
      break;
    }
    if (listener && !listener(token)) break;
  }
  return result;
}

TextGeneration generate_text(const model::ModelDescription& model, nn::ParameterStore& parameters,
                             const data::Tokenizer& tokenizer, std::span<const TokenId> prompt,
                             const GenerationOptions& options, const std::function<void(std::string_view)>& listener) {
  TextGeneration result;
  const auto decoder = tokenizer.stream_decoder(/*skip_special_tokens=*/false);
  const auto add = [&](const std::string& piece) {
    if (piece.empty()) return;
    result.text += piece;
    if (listener) listener(piece);
  };
  result.generation = generate(model, parameters, prompt, options, [&](TokenId token) {
    add(decoder->push(token));
    return true;
  });
  add(decoder->finish());
  return result;
}

}  // namespace weft::serve
