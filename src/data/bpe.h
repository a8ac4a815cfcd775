// Byte pair encoding: a piece of text starts as its characters (or bytes), and the adjacent pair of the lowest rank,
// leftmost first, is merged until no pair is in the list of merges (Sennrich et al. 2016, arXiv 1508.07909; the ranks
// are GPT-2's).
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/tokenizer.h"
#include "data/tokenizer_vocabulary.h"

namespace weft::data {

struct BpeOptions {
  bool ignore_merges = false;  // a piece that is a token needs no merges
  bool fuse_unknown = false;   // neighbouring unknown characters become one unknown token
  bool byte_fallback = false;  // an unknown character becomes its bytes' tokens, <0x00> to <0xFF>, if all are there
  std::string unknown_token;   // empty: unknown characters vanish
  std::string continuing_subword_prefix;
  std::string end_of_word_suffix;
};

// Buffers that pieces of one text share; one a thread.
struct BpeWorkspace {
  struct Symbol {
    TokenId id;
    std::uint32_t previous;
    std::uint32_t next;
  };
  std::vector<TokenId> ids;
  std::vector<Symbol> symbols;
  std::vector<std::uint64_t> queue;
};

class BpeModel {
 public:
  using Tokens = std::vector<std::pair<std::string, TokenId>>;
  using Merges = std::vector<std::pair<std::string, std::string>>;

  // `pieces_are_bytes`: the pieces will be raw text, each byte standing for its character of the byte-level alphabet;
  // only where covers_all_bytes(). Otherwise they are the characters of the vocabulary. InputError, starting with
  // `origin`, for merges of unknown tokens, merges named twice, and what TokenVocabulary refuses.
  BpeModel(const Tokens& tokens, const Merges& merges, BpeOptions options, bool pieces_are_bytes,
           std::string_view origin);

  // Whether each of the 256 characters of the byte-level alphabet is a token, and nothing of the options stands in the
  // way.
  static bool covers_all_bytes(const Tokens& tokens, const BpeOptions& options);

  // Appends the ids of a piece (not empty). Any thread.
  void encode(std::string_view piece, BpeWorkspace& workspace, std::vector<TokenId>& ids) const;

  // The vocabulary as its file writes it.
  [[nodiscard]] const TokenVocabulary& vocabulary() const { return vocabulary_; }

 private:
  struct Pair {
    std::uint64_t key;    // left id << 32 | right id; kNoPair: the slot is free
    std::uint64_t merge;  // rank << 32 | the id of both together
  };
  static constexpr std::uint64_t kNoPair = ~std::uint64_t{0};
  static constexpr std::uint64_t kNoMerge = ~std::uint64_t{0};

  // Whether a token's own text is encoded as that one token: found out when the text first comes up.
  enum class Whole : std::uint8_t { Unknown, Yes, No };

  void add_merges(const Merges& merges, std::string_view origin);
  void insert_pair(std::uint64_t key, std::uint64_t merge, std::string_view origin,
                   const std::pair<std::string, std::string>& text);
  [[nodiscard]] std::uint64_t find_merge(TokenId left, TokenId right) const;
  void first_symbols(std::string_view piece, std::vector<TokenId>& ids) const;
  void unknown_symbol(std::string_view symbol, bool& pending, std::vector<TokenId>& ids) const;
  void merge_short(TokenId* ids, std::size_t& count) const;
  void merge_long(BpeWorkspace& workspace) const;
  void merge(BpeWorkspace& workspace) const;

  BpeOptions options_;
  bool pieces_are_bytes_;
  TokenVocabulary vocabulary_;
  TokenVocabulary pieces_;  // the tokens as pieces write them: raw bytes, or unused
  std::array<TokenId, 256> byte_ids_{};
  std::array<std::optional<TokenId>, 256> fallback_ids_{};
  std::vector<Pair> pairs_;  // open addressing, a power of two
  std::unique_ptr<std::atomic<Whole>[]> whole_;
};

}  // namespace weft::data
