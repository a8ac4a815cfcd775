#include "model/hugging_face_fields.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

#include "base/json.h"

namespace weft::model {
namespace {

// Fields that change no number of a forward or backward pass, in any family. Those of generation are read by src/serve.
constexpr auto kHarmless = std::to_array<std::string_view>({"_attn_implementation",
                                                            "_attn_implementation_autoset",
                                                            "_commit_hash",
                                                            "_flash_attn_2_enabled",
                                                            "_name_or_path",
                                                            "architectures",
                                                            "attn_implementation",
                                                            "bad_words_ids",
                                                            "begin_suppress_tokens",
                                                            "chunk_size_feed_forward",
                                                            "cross_attention_hidden_size",
                                                            "decoder_start_token_id",
                                                            "diversity_penalty",
                                                            "do_sample",
                                                            "early_stopping",
                                                            "encoder_no_repeat_ngram_size",
                                                            "exponential_decay_length_penalty",
                                                            "finetuning_task",
                                                            "forced_bos_token_id",
                                                            "forced_eos_token_id",
                                                            "gradient_checkpointing",
                                                            "id2label",
                                                            "is_decoder",
                                                            "is_llama_config",
                                                            "label2id",
                                                            "length_penalty",
                                                            "max_length",
                                                            "max_sequence_length",
                                                            "min_length",
                                                            "model_type",
                                                            "n_ctx",
                                                            "name_or_path",
                                                            "no_repeat_ngram_size",
                                                            "num_beam_groups",
                                                            "num_beams",
                                                            "num_labels",
                                                            "num_return_sequences",
                                                            "output_attentions",
                                                            "output_hidden_states",
                                                            "output_scores",
                                                            "prefix",
                                                            "pretraining_tp",
                                                            "problem_type",
                                                            "remove_invalid_values",
                                                            "reorder_and_upcast_attn",
                                                            "repetition_penalty",
                                                            "return_dict",
                                                            "return_dict_in_generate",
                                                            "sep_token_id",
                                                            "summary_activation",
                                                            "summary_first_dropout",
                                                            "summary_proj_to_labels",
                                                            "summary_type",
                                                            "summary_use_proj",
                                                            "suppress_tokens",
                                                            "task_specific_params",
                                                            "temperature",
                                                            "tf_legacy_loss",
                                                            "tie_encoder_decoder",
                                                            "tokenizer_class",
                                                            "top_k",
                                                            "top_p",
                                                            "torchscript",
                                                            "transformers.js_config",
                                                            "transformers_version",
                                                            "typical_p",
                                                            "unsloth_fixed",
                                                            "unsloth_version",
                                                            "use_bfloat16",
                                                            "use_cache"});

}  // namespace

bool HuggingFaceFields::has(std::string_view key) { return seen_.insert(std::string(key)), config_.has(key); }

bool HuggingFaceFields::is_null(std::string_view key) {
  seen_.insert(std::string(key));
  const auto found = config_.json().find(std::string(key));
  return found != config_.json().end() && found->is_null();
}

JsonReader HuggingFaceFields::at(std::string_view key) { return seen_.insert(std::string(key)), config_.at(key); }

int64_t HuggingFaceFields::checked_size(const JsonReader& value, int64_t greatest) {
  const int64_t size = value.as_integer();
  if (size < 1 || size > greatest) value.fail(fmt::format("is {}; it must be from 1 to {}", size, greatest));
  return size;
}

int64_t HuggingFaceFields::size(std::string_view key, int64_t greatest) { return checked_size(at(key), greatest); }

int64_t HuggingFaceFields::size(std::string_view key, int64_t greatest, int64_t otherwise) {
  return has(key) ? size(key, greatest) : otherwise;
}

double HuggingFaceFields::number(std::string_view key, double otherwise) {
  return has(key) ? at(key).as_number() : otherwise;
}

double HuggingFaceFields::positive(std::string_view key, double otherwise) {
  const double value = number(key, otherwise);
  if (!(value > 0) || !std::isfinite(value)) fail(key, fmt::format("is {}; it must be above 0", value));
  return value;
}

double HuggingFaceFields::dropout(std::string_view key, double otherwise) {
  const double value = number(key, otherwise);
  if (!(value >= 0 && value < 1)) fail(key, fmt::format("is {}; it must be at least 0 and below 1", value));
  return value;
}

bool HuggingFaceFields::boolean(std::string_view key, bool otherwise) {
  return has(key) ? at(key).as_boolean() : otherwise;
}

std::string HuggingFaceFields::text(std::string_view key, std::string_view otherwise) {
  return has(key) ? at(key).as_string() : std::string(otherwise);
}

void HuggingFaceFields::fail(std::string_view key, std::string_view what) {
  if (has(key)) at(key).fail(what);
  config_.fail(fmt::format("{} (not in the file, so the default): {}", key, what));
}

void HuggingFaceFields::demand(std::string_view key, bool value, std::string_view why) {
  if (boolean(key, value) != value) fail(key, fmt::format("is {}; only {} is supported: {}", !value, value, why));
}

void HuggingFaceFields::demand_empty(std::string_view key, std::string_view why) {
  if (!has(key)) return;
  const Json& value = at(key).json();
  const bool empty = (value.is_object() || value.is_array()) && value.empty();
  if (!empty) fail(key, fmt::format("is set; it is not supported: {}", why));
}

std::vector<std::string> HuggingFaceFields::unknown() const {
  std::vector<std::string> keys;
  for (const auto& [key, value] : config_.json().items()) {
    const bool harmless = std::find(kHarmless.begin(), kHarmless.end(), key) != kHarmless.end();
    if (!harmless && !seen_.contains(key) && !value.is_null()) keys.push_back(key);
  }
  return keys;
}

}  // namespace weft::model
