// The tokenizer of tokenizer.json and of GPT-2's two files: added tokens, normalizer, pre-tokenizer, byte pair
// encoding, template, decoder.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "data/bpe.h"
#include "data/decoder.h"
#include "data/normalizer.h"
#include "data/pre_tokenizer.h"
#include "data/tokenizer.h"
#include "data/tokenizer_added_tokens.h"

namespace weft::data {

// A file of a tokenizer as it was read, to be written again as it is.
struct TokenizerFile {
  std::string name;
  std::string content;
};

struct BpeTokenizerParts {
  std::unique_ptr<Normalizer> normalizer;       // null: none
  std::unique_ptr<PreTokenizer> pre_tokenizer;  // null: none
  std::unique_ptr<BpeModel> model;
  AddedTokens added_tokens;
  std::vector<TokenId> template_before;  // what SpecialTokens::Add puts before and behind a text
  std::vector<TokenId> template_behind;
  DecoderSteps decoder;
  std::optional<TokenId> bos;
  std::optional<TokenId> eos;
  std::vector<TokenizerFile> files;       // those that decide the ids
  std::vector<TokenizerFile> more_files;  // those kept beside them
};

class BpeTokenizer : public Tokenizer {
 public:
  explicit BpeTokenizer(BpeTokenizerParts parts);

  using Tokenizer::encode;
  void encode(std::string_view text, SpecialTokens special_tokens, std::vector<TokenId>& ids) const override;
  [[nodiscard]] std::unique_ptr<StreamDecoder> stream_decoder(bool skip_special_tokens) const override;
  [[nodiscard]] std::size_t vocabulary_size() const override { return vocabulary_size_; }
  [[nodiscard]] std::optional<TokenId> bos_id() const override { return parts_.bos; }
  [[nodiscard]] std::optional<TokenId> eos_id() const override { return parts_.eos; }
  [[nodiscard]] std::optional<TokenId> token_id(std::string_view token) const override;
  void save(const std::filesystem::path& directory) const override;
  [[nodiscard]] std::uint64_t fingerprint() const override { return fingerprint_; }

 private:
  void encode_text(std::string_view text, bool at_start, bool match_special, class BpeSink& sink) const;

  BpeTokenizerParts parts_;
  std::size_t vocabulary_size_ = 0;
  std::uint64_t fingerprint_ = 0;
};

}  // namespace weft::data
