// The loss of a model on given tokens.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/stored_tensor.h"
#include "model/description.h"
#include "nn/parameter_store.h"
#include "serve/loaded_model.h"

namespace weft::serve {

using data::TokenId;
using TokenRows = std::vector<std::vector<TokenId>>;  // each row a text of its own; its first token is not predicted

struct Evaluation {
  double loss = 0;     // mean over predicted tokens, in nats
  int64_t tokens = 0;  // predicted ones
  [[nodiscard]] double perplexity() const;
};

struct EvaluationOptions {
  bool gradients = false;  // leave the loss's gradient in the parameter store
  // Told of each row's logits, fp32 [length, vocabulary]; rows come in any order.
  std::function<void(size_t row, const at::Tensor& logits)> on_logits;
  std::function<void(int64_t tokens)> on_progress;  // predicted tokens so far
  std::filesystem::path file;                       // that the rows are from, for messages; empty: from none
};

// InputError: nothing to predict, a token beyond the vocabulary (row and index named), a row longer than the model's
// context.
Evaluation evaluate(const model::ModelDescription& model, nn::ParameterStore& parameters, const TokenRows& rows,
                    const EvaluationOptions& options = {});

// Consecutive windows of `context` tokens, a shorter last one included.
[[nodiscard]] TokenRows cut_into_windows(std::span<const TokenId> tokens, int64_t context);

// {"ids": [[1, 2], ...]}. InputError names file and place.
[[nodiscard]] TokenRows read_token_rows(const std::filesystem::path& path);

// How many tokens a window has where nobody says: the run's context, else the model's, at most 2048.
[[nodiscard]] int64_t usual_context(const checkpoint::ModelSource& source);

// `weft eval`. Exactly one of `token_file` and `text_file` is set.
struct EvalRequest {
  std::filesystem::path token_file, text_file;
  int64_t context = 0;                                // 0: usual_context
  bool special_tokens = false;                        // the tokenizer adds its own around the text
  std::filesystem::path logits_file, gradients_file;  // empty: not written
};
// The files: safetensors; `logits.ROW` fp32 [length, vocabulary], and gradients of the mean loss under Hugging Face's
// names and in its layout.
Evaluation run_eval(LoadedModel& model, const EvalRequest& request,
                    const std::function<void(int64_t done, int64_t total)>& on_progress = {});

}  // namespace weft::serve
