// Weft's own two tokenizers: bytes, and the characters of a text. Saved as weft_tokenizer.json
// (docs/formats/weft_tokenizer.md).
#pragma once

#include <memory>
#include <set>
#include <string>
#include <string_view>

#include "data/tokenizer.h"

namespace weft::data {

inline constexpr std::string_view kOwnTokenizerFile = "weft_tokenizer.json";

// Ids 0 to 255 are the bytes, 256 is <|endoftext|>, which ends a text.
std::unique_ptr<Tokenizer> make_byte_tokenizer();

// Gathers the characters of a text that comes in parts (each of whole characters).
class CharacterVocabulary {
 public:
  void add(std::string_view text);
  [[nodiscard]] std::size_t size() const { return characters_.size(); }
  // Ids in the order of the code points, from 0. There is no BOS and no EOS. InputError if there is no character.
  [[nodiscard]] std::unique_ptr<Tokenizer> make_tokenizer() const;

 private:
  std::set<char32_t> characters_;
};

// Of the content of weft_tokenizer.json. InputError naming `origin` and key.
std::unique_ptr<Tokenizer> own_tokenizer_of_json(std::string_view text, std::string_view origin);

}  // namespace weft::data
