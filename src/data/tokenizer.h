// Text to token ids and back. A tokenizer is immutable once it is loaded: every const member may be called from several
// threads at once.
//
// Text is UTF-8. Where it is not, each invalid part becomes U+FFFD before it is encoded (the longest start of a
// character at a time, as Rust, Python's "replace" and browsers do); the bytes tokenizer alone takes every byte as it
// is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace weft::data {

using TokenId = std::uint32_t;

// What happens to special tokens ("<|endoftext|>") on the way in.
enum class SpecialTokens {
  Match,  // those written in the text become their ids; none is added: what training, evaluation and prompts use
  Plain,  // those written in the text are text like any other: for text from a stranger
  Add,    // Match, and the tokenizer's own template adds what the model expects around a text (a BOS, say)
};

// Turns the ids of one text into pieces of it that never end inside a character. The pieces joined are decode() of all
// ids. One thread at a time.
class StreamDecoder {
 public:
  virtual ~StreamDecoder() = default;
  // The text that this id makes certain; often empty, or more than one token's.
  [[nodiscard]] virtual std::string push(TokenId id) = 0;
  // What was held back, broken characters as U+FFFD. The decoder is then as new.
  [[nodiscard]] virtual std::string finish() = 0;
};

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // Appends the ids of `text`. InputError if the tokenizer cannot write the text (a character outside of its
  // vocabulary).
  virtual void encode(std::string_view text, SpecialTokens special_tokens, std::vector<TokenId>& ids) const = 0;
  [[nodiscard]] std::vector<TokenId> encode(std::string_view text,
                                            SpecialTokens special_tokens = SpecialTokens::Match) const;

  // Ids without a token (models often have more rows than the tokenizer has tokens) decode to nothing.
  [[nodiscard]] std::string decode(std::span<const TokenId> ids, bool skip_special_tokens = false) const;
  [[nodiscard]] virtual std::unique_ptr<StreamDecoder> stream_decoder(bool skip_special_tokens = false) const = 0;

  // The largest id + 1: the rows a model needs at least.
  [[nodiscard]] virtual std::size_t vocabulary_size() const = 0;
  // The token that starts a text, and the one that ends it and stands between documents, if there are any.
  [[nodiscard]] virtual std::optional<TokenId> bos_id() const = 0;
  [[nodiscard]] virtual std::optional<TokenId> eos_id() const = 0;
  // The id of the token of exactly this text, special or not.
  [[nodiscard]] virtual std::optional<TokenId> token_id(std::string_view token) const = 0;

  // Writes the files that load_tokenizer(directory) reads; the directory exists. Files of the same name are replaced,
  // each at once.
  virtual void save(const std::filesystem::path& directory) const = 0;
  // The same, and where those files are weft's own, also those that `tokenizers` and transformers read.
  virtual void export_hugging_face(const std::filesystem::path& directory) const { save(directory); }
  // Equal for equal tokenizers: a hash of what decides the ids.
  [[nodiscard]] virtual std::uint64_t fingerprint() const = 0;
};

// `source` is "bytes", a directory, or one of the files a directory is known by:
//   weft_tokenizer.json                      bytes or characters (docs/formats/weft_tokenizer.md)
//   tokenizer.json                           Hugging Face's, of kind BPE
//   vocab.json with merges.txt or vocab.bpe  GPT-2's
// in that order. tokenizer_config.json and special_tokens_map.json beside them name BOS and EOS. InputError says what
// is wrong with which file and key.
[[nodiscard]] std::unique_ptr<Tokenizer> load_tokenizer(const std::string& source);

}  // namespace weft::data
