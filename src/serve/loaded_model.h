// A model in memory, ready to generate and to be evaluated.
#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>

#include "checkpoint/convert.h"
#include "checkpoint/model_source.h"
#include "data/tokenizer.h"
#include "nn/parameter_store.h"

namespace weft::serve {

struct LoadedModel {
  checkpoint::ModelSource source;
  std::unique_ptr<nn::ParameterStore> parameters;
  std::unique_ptr<data::Tokenizer> tokenizer;  // null: the directory has none
  std::vector<data::TokenId> end_of_text;      // what the directory says ends a text, else the tokenizer's

  [[nodiscard]] const model::ModelDescription& description() const { return source.description; }
  // Throws InputError where there is none.
  [[nodiscard]] const data::Tokenizer& needed_tokenizer() const;
};

// Reads a run (its best checkpoint), a checkpoint or a Hugging Face directory, without its dropouts. compute_type:
// float or bfloat16. InputError as open_model's and load_tokenizer's, and where the tokenizer has more tokens than the
// model.
[[nodiscard]] LoadedModel load_model(const std::filesystem::path& directory, at::ScalarType compute_type);

// The tokenizer of an opened model, null if its folders hold none.
[[nodiscard]] std::unique_ptr<data::Tokenizer> load_tokenizer_of(const checkpoint::ModelSource& source);

// `weft convert`: the model of `source` as a Hugging Face directory of weights of `type`, or as a checkpoint that
// stands alone. The tokenizer's files go along.
struct ConvertOptions {
  enum class Format { kHuggingFace, kWeft } format = Format::kHuggingFace;
  at::ScalarType type = at::kFloat;  // of a Hugging Face directory
  uint64_t maximum_shard_bytes = checkpoint::kMaximumShardBytes;
};
checkpoint::WrittenModel convert(const checkpoint::ModelSource& source, const std::filesystem::path& destination,
                                 const ConvertOptions& options);

}  // namespace weft::serve
