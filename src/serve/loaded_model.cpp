#include "serve/loaded_model.h"

#include <fmt/format.h>

#include "base/error.h"
#include "config/tree.h"
#include "model/describe.h"

namespace weft::serve {

namespace {

bool holds_tokenizer(const std::filesystem::path& directory) {
  for (const char* name : {"weft_tokenizer.json", "tokenizer.json", "vocab.json"}) {
    if (std::filesystem::exists(directory / name)) return true;
  }
  return false;
}

std::vector<data::TokenId> end_of_text_of(const checkpoint::ModelSource& source, const data::Tokenizer* tokenizer) {
  std::vector<data::TokenId> ids;
  for (const int64_t id : source.tokens.end) ids.push_back(static_cast<data::TokenId>(id));
  if (ids.empty() && tokenizer != nullptr && tokenizer->eos_id()) ids.push_back(*tokenizer->eos_id());
  return ids;
}

// What a written directory says of special tokens: as the source's, or the tokenizer's.
model::SpecialTokens special_tokens_of(const checkpoint::ModelSource& source, const data::Tokenizer* tokenizer) {
  model::SpecialTokens tokens = source.tokens;
  if (tokenizer == nullptr) return tokens;
  if (!tokens.begin && tokenizer->bos_id()) tokens.begin = *tokenizer->bos_id();
  if (tokens.end.empty() && tokenizer->eos_id()) tokens.end = {*tokenizer->eos_id()};
  return tokens;
}

// Nothing here trains, and gradients are asked for as those of the function that is evaluated.
void leave_out_dropout(checkpoint::ModelSource& source) {
  auto tree = std::make_unique<model::ModelNode>(*source.model);
  config::visit(*tree, [](const std::string&, config::Field& field) {
    if (field.name == "dropout") field.set(0.0);
  });
  source.description = model::describe(*tree);
  source.model = std::move(tree);
}

void fill(const checkpoint::ModelSource& source, nn::ParameterStore& parameters) {
  for (size_t i = 0; i < parameters.size(); ++i) {
    source.weights->read(static_cast<int>(i), parameters.master(static_cast<int>(i)));
  }
  parameters.refresh_compute_copies();
}

}  // namespace

const data::Tokenizer& LoadedModel::needed_tokenizer() const {
  if (tokenizer == nullptr) {
    throw InputError(fmt::format(
        "{}: holds no tokenizer (weft_tokenizer.json, tokenizer.json or vocab.json); give token ids instead",
        source.folder.directory.string()));
  }
  return *tokenizer;
}

std::unique_ptr<data::Tokenizer> load_tokenizer_of(const checkpoint::ModelSource& source) {
  for (const auto& folder : source.tokenizer) {
    if (holds_tokenizer(folder)) return data::load_tokenizer(folder.string());
  }
  return nullptr;
}

LoadedModel load_model(const std::filesystem::path& directory, at::ScalarType compute_type) {
  LoadedModel loaded;
  loaded.source = checkpoint::open_model(directory);
  leave_out_dropout(loaded.source);
  loaded.tokenizer = load_tokenizer_of(loaded.source);
  loaded.end_of_text = end_of_text_of(loaded.source, loaded.tokenizer.get());
  loaded.parameters = std::make_unique<nn::ParameterStore>(
      loaded.description(), std::vector<bool>(loaded.description().parameters.size(), false), compute_type, at::kCPU);
  fill(loaded.source, *loaded.parameters);
  return loaded;
}

checkpoint::WrittenModel convert(const checkpoint::ModelSource& source, const std::filesystem::path& destination,
                                 const ConvertOptions& options) {
  const auto tokenizer = load_tokenizer_of(source);
  checkpoint::TokenizerWriter write_tokenizer;
  if (tokenizer != nullptr) {
    write_tokenizer = [&](const std::filesystem::path& folder) {
      options.format == ConvertOptions::Format::kHuggingFace ? tokenizer->export_hugging_face(folder)
                                                             : tokenizer->save(folder);
    };
  }
  if (options.format == ConvertOptions::Format::kHuggingFace) {
    return checkpoint::write_hugging_face(destination, *source.model, source.description, *source.weights,
                                          {.type = options.type,
                                           .tokens = special_tokens_of(source, tokenizer.get()),
                                           .maximum_shard_bytes = options.maximum_shard_bytes,
                                           .write_tokenizer = write_tokenizer});
  }
  nn::ParameterStore parameters(source.description, std::vector<bool>(source.description.parameters.size(), true),
                                at::kFloat, at::kCPU);
  fill(source, parameters);
  return checkpoint::write_checkpoint(destination, *source.model, source.description, *source.weights,
                                      parameters.parameter_hash(), write_tokenizer);
}

}  // namespace weft::serve
