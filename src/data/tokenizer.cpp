#include "data/tokenizer.h"

#include <array>
#include <system_error>

#include <fmt/format.h>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "data/tokenizer_bpe.h"
#include "data/tokenizer_json.h"
#include "data/tokenizer_own.h"

namespace weft::data {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLargestFile = std::size_t{512} << 20;

// What a missing configuration leaves open: the names that models of these families use.
constexpr std::array<std::string_view, 5> kUsualEos = {"<|endoftext|>", "</s>", "<eos>", "<|end_of_text|>",
                                                       "<｜end▁of▁sentence｜>"};
constexpr std::array<std::string_view, 5> kUsualBos = {"<|endoftext|>", "<s>", "<bos>", "<|begin_of_text|>",
                                                       "<｜begin▁of▁sentence｜>"};

// A place that may not be looked at counts as empty; reading what is found says more.
bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

TokenizerFile read(const fs::path& path) { return {path.filename().string(), read_file(path, kLargestFile)}; }

std::optional<TokenId> id_of_token(const BpeTokenizerParts& parts, std::string_view content) {
  const auto added = parts.added_tokens.find(content);
  return added ? added : parts.model->vocabulary().find(content);
}

// The token under `key` ("eos_token") of tokenizer_config.json or, where that has no such key, of
// special_tokens_map.json; a null says that there is none.
std::optional<TokenId> configured_token(const BpeTokenizerParts& parts, const fs::path& directory, std::string_view key,
                                        std::span<const std::string_view> usual) {
  for (const TokenizerFile& file : parts.more_files) {
    if (file.name != "tokenizer_config.json" && file.name != "special_tokens_map.json") {
      continue;
    }
    const std::string origin = (directory / file.name).string();
    const Json document = parse_json(file.content, origin);
    const JsonReader json(document, origin);
    if (!json.is_object()) {
      json.fail("expected an object");
    }
    const auto found = document.find(key);
    if (found == document.end()) {
      continue;
    }
    if (found->is_null()) {
      return std::nullopt;
    }
    const JsonReader value = json.at(key);
    const std::string content = value.is_object() ? value.string("content") : value.as_string();
    const auto id = id_of_token(parts, content);
    if (!id) {
      value.fail(fmt::format("\"{}\" is no token of the tokenizer", content));
    }
    return id;
  }
  for (const std::string_view name : usual) {
    if (const auto id = id_of_token(parts, name)) {
      return id;
    }
  }
  return std::nullopt;
}

std::unique_ptr<Tokenizer> finish(BpeTokenizerParts parts, const fs::path& directory) {
  for (const std::string_view name : {"tokenizer_config.json", "special_tokens_map.json"}) {
    if (is_there(directory / name)) {
      parts.more_files.push_back(read(directory / name));
    }
  }
  parts.bos = configured_token(parts, directory, "bos_token", kUsualBos);
  parts.eos = configured_token(parts, directory, "eos_token", kUsualEos);
  return std::make_unique<BpeTokenizer>(std::move(parts));
}

std::unique_ptr<Tokenizer> load_tokenizer_json(const fs::path& path) {
  TokenizerFile file = read(path);
  BpeTokenizerParts parts = parts_of_tokenizer_json(file.content, path.string());
  parts.files.push_back(std::move(file));
  return finish(std::move(parts), path.parent_path());
}

std::unique_ptr<Tokenizer> load_gpt2(const fs::path& vocabulary_path) {
  const fs::path directory = vocabulary_path.parent_path();
  const bool has_text = is_there(directory / "merges.txt");
  if (!has_text && !is_there(directory / "vocab.bpe")) {
    throw InputError(fmt::format("{}: neither merges.txt nor vocab.bpe stands beside it", vocabulary_path.string()));
  }
  if (is_there(directory / "added_tokens.json")) {
    throw InputError(
        fmt::format("{}: added tokens beside vocab.json are not supported; save the tokenizer as tokenizer.json",
                    (directory / "added_tokens.json").string()));
  }
  const fs::path merges_path = directory / (has_text ? "merges.txt" : "vocab.bpe");
  TokenizerFile vocabulary = read(vocabulary_path);
  TokenizerFile merges = read(merges_path);
  BpeTokenizerParts parts =
      parts_of_gpt2_files(vocabulary.content, vocabulary_path.string(), merges.content, merges_path.string());
  parts.files.push_back(std::move(vocabulary));
  parts.files.push_back(std::move(merges));
  return finish(std::move(parts), directory);
}

}  // namespace

std::vector<TokenId> Tokenizer::encode(std::string_view text, SpecialTokens special_tokens) const {
  std::vector<TokenId> ids;
  encode(text, special_tokens, ids);
  return ids;
}

std::string Tokenizer::decode(std::span<const TokenId> ids, bool skip_special_tokens) const {
  const auto decoder = stream_decoder(skip_special_tokens);
  std::string text;
  for (const TokenId id : ids) {
    text += decoder->push(id);
  }
  return text + decoder->finish();
}

std::unique_ptr<Tokenizer> load_tokenizer(const std::string& source) {
  if (source == "bytes") {
    return make_byte_tokenizer();
  }
  fs::path path = source;
  if (!is_there(path)) {
    throw InputError(fmt::format("{}: there is no such tokenizer: expected \"bytes\", a directory or a file", source));
  }
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) {
    const fs::path directory = path;
    for (const std::string_view name :
         {kOwnTokenizerFile, std::string_view("tokenizer.json"), std::string_view("vocab.json")}) {
      if (is_there(directory / name)) {
        path = directory / name;
        break;
      }
    }
    if (path == directory) {
      throw InputError(fmt::format("{}: holds none of {}, tokenizer.json, vocab.json", source, kOwnTokenizerFile));
    }
  }
  if (path.filename() == kOwnTokenizerFile) {
    return own_tokenizer_of_json(read_file(path, kLargestFile), path.string());
  }
  return path.filename() == "vocab.json" ? load_gpt2(path) : load_tokenizer_json(path);
}

}  // namespace weft::data
