// The strings of a tokenizer's tokens, looked up both ways.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/tokenizer.h"

namespace weft::data {

// Ids above this are refused: no tokenizer comes near, and every id costs memory.
constexpr TokenId kLargestTokenId = (1U << 22) - 1;

// Immutable after it is made; may be used from any thread. Ids may have holes.
class TokenVocabulary {
 public:
  TokenVocabulary() = default;
  // Ids must be at most kLargestTokenId; strings and ids must be distinct. `origin` (file and key) starts the message
  // of the InputError otherwise.
  TokenVocabulary(const std::vector<std::pair<std::string, TokenId>>& tokens, std::string_view origin);

  [[nodiscard]] std::optional<TokenId> find(std::string_view text) const;
  [[nodiscard]] bool contains(TokenId id) const { return id < present_.size() && present_[id]; }
  // Empty where there is no token.
  [[nodiscard]] std::string_view text(TokenId id) const {
    return contains(id) ? std::string_view(characters_).substr(offsets_[id], lengths_[id]) : std::string_view{};
  }
  // The number of tokens, and the largest id + 1.
  [[nodiscard]] std::size_t count() const { return count_; }
  [[nodiscard]] std::size_t size() const { return present_.size(); }

 private:
  struct Slot {
    std::uint32_t tag;  // the upper half of the hash
    TokenId id;         // kEmpty: the slot is free
  };
  static constexpr TokenId kEmpty = ~TokenId{0};

  std::string characters_;
  std::vector<std::size_t> offsets_;
  std::vector<std::uint32_t> lengths_;
  std::vector<bool> present_;
  std::vector<Slot> slots_;  // open addressing, a power of two
  std::size_t count_ = 0;
};

}  // namespace weft::data
