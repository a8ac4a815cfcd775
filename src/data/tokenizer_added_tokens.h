// Tokens that stand outside of byte pair encoding: they are found in the text first, whole.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "data/normalizer.h"
#include "data/tokenizer.h"

namespace weft::data {

struct AddedToken {
  std::string content;
  TokenId id = 0;
  bool single_word = false;  // not inside of a word
  bool lstrip = false;       // takes the white space before it
  bool rstrip = false;       // takes the white space behind it
  bool normalized = false;   // is looked for, normalized itself, in the normalized text
  bool special = false;

  // Made by AddedTokens. `written` is what the token decodes to: `tokenizers` writes a normalized token as it is
  // normalized, and passes over a token when what it writes is the content of a special one.
  std::string written;
  bool skipped = false;
};

// Immutable; any thread.
class AddedTokens {
 public:
  AddedTokens() = default;
  // Contents are distinct and not empty. InputError, starting with `origin`, if one is normalized to nothing.
  AddedTokens(std::vector<AddedToken> tokens, const Normalizer* normalizer, std::string_view origin);

  [[nodiscard]] const AddedToken* find(TokenId id) const;
  [[nodiscard]] std::optional<TokenId> find(std::string_view content) const;
  [[nodiscard]] const std::vector<AddedToken>& all() const { return tokens_; }

  // Cuts `text` at the tokens found in it, from left to right: the longest at the first place. `in_text(begin, end)`
  // and `in_token(id)` are called in order. `normalized` says which of the tokens are looked for; special ones are
  // passed over unless `match_special`.
  void split(std::string_view text, bool normalized, bool match_special,
             const std::function<void(std::size_t, std::size_t)>& in_text,
             const std::function<void(TokenId)>& in_token) const;
  [[nodiscard]] bool any(bool normalized) const { return !(normalized ? normalized_ : raw_).nodes.empty(); }

 private:
  // A trie over bytes; the children of a node are a linked list.
  struct Node {
    std::uint32_t child = 0;  // 0: none (node 0 is the root)
    std::uint32_t sibling = 0;
    std::uint32_t token = kNoToken;
    char byte = 0;
  };
  struct Trie {
    std::vector<Node> nodes;
    std::vector<std::uint32_t> first;  // the root's child of each byte
  };
  static constexpr std::uint32_t kNoToken = ~std::uint32_t{0};

  static void insert(Trie& trie, std::string_view pattern, std::uint32_t token);
  // The longest pattern at `position`: its token and its end.
  static std::uint32_t longest(const Trie& trie, std::string_view text, std::size_t position, std::size_t& end);

  std::vector<AddedToken> tokens_;
  std::unordered_map<TokenId, std::uint32_t> by_id_;
  std::unordered_map<std::string, std::uint32_t> by_content_;
  Trie raw_;
  Trie normalized_;
};

}  // namespace weft::data
