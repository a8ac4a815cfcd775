#include "data/tokenizer_own.h"

#include <array>
#include <unordered_map>

#include <fmt/format.h>

#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/utf8.h"
#include "data/unicode.h"

namespace weft::data {
namespace {

constexpr std::int64_t kFormat = 1;
constexpr TokenId kEndOfTextId = 256;
constexpr std::string_view kEndOfText = "<|endoftext|>";

// A vocabulary of single characters or bytes is to Hugging Face a byte pair encoding without merges.
struct HuggingFaceParts {
  OrderedJson vocabulary = OrderedJson::object();
  OrderedJson added_tokens = OrderedJson::array();
  OrderedJson pre_tokenizer;
  OrderedJson decoder;
  OrderedJson configuration = {{"tokenizer_class", "PreTrainedTokenizerFast"}, {"clean_up_tokenization_spaces", false}};
};

void write_hugging_face(const std::filesystem::path& directory, const HuggingFaceParts& parts) {
  const OrderedJson model = {{"type", "BPE"},          {"unk_token", nullptr},      {"fuse_unk", false},
                             {"byte_fallback", false}, {"vocab", parts.vocabulary}, {"merges", OrderedJson::array()}};
  const OrderedJson tokenizer = {{"version", "1.0"},
                                 {"truncation", nullptr},
                                 {"padding", nullptr},
                                 {"added_tokens", parts.added_tokens},
                                 {"normalizer", nullptr},
                                 {"pre_tokenizer", parts.pre_tokenizer},
                                 {"post_processor", nullptr},
                                 {"decoder", parts.decoder},
                                 {"model", model}};
  write_file(directory / "tokenizer.json", dump_json(tokenizer, 2) + "\n");
  write_file(directory / "tokenizer_config.json", dump_json(parts.configuration, 2) + "\n");
}

class ByteStreamDecoder : public StreamDecoder {
 public:
  explicit ByteStreamDecoder(bool skip_special_tokens) : skip_special_tokens_(skip_special_tokens) {}

  std::string push(TokenId id) override {
    if (id < kEndOfTextId) {
      bytes_ += static_cast<char>(id);
    } else if (id == kEndOfTextId && !skip_special_tokens_) {
      bytes_ += kEndOfText;
    }
    const std::size_t certain = bytes_.size() - incomplete_utf8_suffix(bytes_);
    std::string text = replace_invalid_utf8(std::string_view(bytes_).substr(0, certain));
    bytes_.erase(0, certain);
    return text;
  }
  std::string finish() override { return replace_invalid_utf8(std::exchange(bytes_, {})); }

 private:
  bool skip_special_tokens_;
  std::string bytes_;
};

class ByteTokenizer : public Tokenizer {
 public:
  using Tokenizer::encode;
  void encode(std::string_view text, SpecialTokens special_tokens, std::vector<TokenId>& ids) const override {
    while (!text.empty()) {
      const std::size_t found = special_tokens == SpecialTokens::Plain ? text.npos : text.find(kEndOfText);
      for (const char byte : text.substr(0, found)) {
        ids.push_back(static_cast<unsigned char>(byte));
      }
      if (found == text.npos) {
        return;
      }
      ids.push_back(kEndOfTextId);
      text.remove_prefix(found + kEndOfText.size());
    }
  }
  [[nodiscard]] std::unique_ptr<StreamDecoder> stream_decoder(bool skip_special_tokens) const override {
    return std::make_unique<ByteStreamDecoder>(skip_special_tokens);
  }
  [[nodiscard]] std::size_t vocabulary_size() const override { return kEndOfTextId + 1; }
  [[nodiscard]] std::optional<TokenId> bos_id() const override { return std::nullopt; }
  [[nodiscard]] std::optional<TokenId> eos_id() const override { return kEndOfTextId; }
  [[nodiscard]] std::optional<TokenId> token_id(std::string_view token) const override {
    if (token == kEndOfText) {
      return kEndOfTextId;
    }
    return token.size() == 1 ? std::optional<TokenId>(static_cast<unsigned char>(token[0])) : std::nullopt;
  }
  void save(const std::filesystem::path& directory) const override {
    write_file(directory / kOwnTokenizerFile, content());
  }
  void export_hugging_face(const std::filesystem::path& directory) const override {
    save(directory);
    HuggingFaceParts parts;
    for (int byte = 0; byte < 256; ++byte) {
      std::string letter;
      append_utf8(byte_to_alphabet(static_cast<unsigned char>(byte)), letter);
      parts.vocabulary[letter] = byte;
    }
    parts.added_tokens.push_back({{"id", kEndOfTextId},
                                  {"content", kEndOfText},
                                  {"single_word", false},
                                  {"lstrip", false},
                                  {"rstrip", false},
                                  {"normalized", false},
                                  {"special", true}});
    parts.pre_tokenizer = {
        {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", false}};
    parts.decoder = parts.pre_tokenizer;
    parts.configuration["eos_token"] = kEndOfText;
    write_hugging_face(directory, parts);
  }
  [[nodiscard]] std::uint64_t fingerprint() const override { return xxh64(content()); }

 private:
  static std::string content() { return dump_json(OrderedJson{{"format", kFormat}, {"kind", "bytes"}}) + "\n"; }
};

class CharacterTokenizer : public Tokenizer {
 public:
  // Code points in ascending order.
  explicit CharacterTokenizer(std::vector<char32_t> characters) : characters_(std::move(characters)) {
    ids_.fill(kNone);
    for (TokenId id = 0; id < characters_.size(); ++id) {
      if (characters_[id] < ids_.size()) {
        ids_[characters_[id]] = id;
      } else {
        more_ids_.emplace(characters_[id], id);
      }
    }
  }

  using Tokenizer::encode;
  void encode(std::string_view text, SpecialTokens, std::vector<TokenId>& ids) const override {
    std::string repaired;
    if (!is_utf8(text)) {
      repaired = replace_invalid_utf8(text);
      text = repaired;
    }
    for (std::size_t position = 0; position < text.size();) {
      const std::size_t begin = position;
      const TokenId id = find(next_code_point(text, position));
      if (id == kNone) {
        const TextPosition place = text_position(text, begin);
        throw InputError(
            fmt::format("the character \"{}\" (line {}, column {}) is not among the {} characters of the tokenizer",
                        text.substr(begin, position - begin), place.line, place.column, characters_.size()));
      }
      ids.push_back(id);
    }
  }
  [[nodiscard]] std::unique_ptr<StreamDecoder> stream_decoder(bool) const override;
  [[nodiscard]] std::size_t vocabulary_size() const override { return characters_.size(); }
  [[nodiscard]] std::optional<TokenId> bos_id() const override { return std::nullopt; }
  [[nodiscard]] std::optional<TokenId> eos_id() const override { return std::nullopt; }
  [[nodiscard]] std::optional<TokenId> token_id(std::string_view token) const override {
    std::size_t position = 0;
    if (token.empty() || !is_utf8(token)) {
      return std::nullopt;
    }
    const TokenId id = find(next_code_point(token, position));
    return id != kNone && position == token.size() ? std::optional(id) : std::nullopt;
  }
  void save(const std::filesystem::path& directory) const override {
    write_file(directory / kOwnTokenizerFile, content());
  }
  // There a character outside of the vocabulary is left out instead of refused.
  void export_hugging_face(const std::filesystem::path& directory) const override {
    save(directory);
    HuggingFaceParts parts;
    for (TokenId id = 0; id < characters_.size(); ++id) {
      std::string character;
      append_utf8(characters_[id], character);
      parts.vocabulary[character] = id;
    }
    parts.decoder = {{"type", "Fuse"}};
    write_hugging_face(directory, parts);
  }
  [[nodiscard]] std::uint64_t fingerprint() const override { return xxh64(content()); }

 private:
  static constexpr TokenId kNone = ~TokenId{0};

  [[nodiscard]] TokenId find(char32_t c) const {
    if (c < ids_.size()) {
      return ids_[c];
    }
    const auto found = more_ids_.find(c);
    return found == more_ids_.end() ? kNone : found->second;
  }
  [[nodiscard]] std::string content() const {
    std::string text;
    for (const char32_t c : characters_) {
      append_utf8(c, text);
    }
    return dump_json(OrderedJson{{"format", kFormat}, {"kind", "characters"}, {"characters", text}}) + "\n";
  }

  std::vector<char32_t> characters_;
  std::array<TokenId, 256> ids_;
  std::unordered_map<char32_t, TokenId> more_ids_;
};

class CharacterStreamDecoder : public StreamDecoder {
 public:
  explicit CharacterStreamDecoder(const std::vector<char32_t>& characters) : characters_(characters) {}
  std::string push(TokenId id) override {
    std::string text;
    if (id < characters_.size()) {
      append_utf8(characters_[id], text);
    }
    return text;
  }
  std::string finish() override { return {}; }

 private:
  const std::vector<char32_t>& characters_;
};

std::unique_ptr<StreamDecoder> CharacterTokenizer::stream_decoder(bool) const {
  return std::make_unique<CharacterStreamDecoder>(characters_);
}

}  // namespace

std::unique_ptr<Tokenizer> make_byte_tokenizer() { return std::make_unique<ByteTokenizer>(); }

void CharacterVocabulary::add(std::string_view text) {
  std::string repaired;
  if (!is_utf8(text)) {
    repaired = replace_invalid_utf8(text);
    text = repaired;
  }
  for (std::size_t position = 0; position < text.size();) {
    characters_.insert(next_code_point(text, position));
  }
}

std::unique_ptr<Tokenizer> CharacterVocabulary::make_tokenizer() const {
  if (characters_.empty()) {
    throw InputError("a tokenizer of characters cannot be made from an empty text");
  }
  return std::make_unique<CharacterTokenizer>(std::vector<char32_t>(characters_.begin(), characters_.end()));
}

std::unique_ptr<Tokenizer> own_tokenizer_of_json(std::string_view text, std::string_view origin) {
  const Json document = parse_json(text, origin);
  const JsonReader json(document, origin);
  if (json.integer("format") != kFormat) {
    json.at("format").fail(fmt::format("expected {}, found {}", kFormat, json.integer("format")));
  }
  const std::string kind = json.string("kind");
  if (kind == "bytes") {
    return make_byte_tokenizer();
  }
  if (kind != "characters") {
    json.at("kind").fail(fmt::format("expected \"bytes\" or \"characters\", found \"{}\"", kind));
  }
  const JsonReader field = json.at("characters");
  const std::string& all = field.as_string();
  std::vector<char32_t> characters;
  for (std::size_t position = 0; position < all.size();) {
    characters.push_back(next_code_point(all, position));
    if (characters.size() > 1 && characters[characters.size() - 2] >= characters.back()) {
      field.fail("the characters are not in ascending order of their code points");
    }
  }
  if (characters.empty()) {
    field.fail("there is no character");
  }
  return std::make_unique<CharacterTokenizer>(std::move(characters));
}

}  // namespace weft::data
