// Several token stores as one sequence, and windows that cut it into samples.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/token_store.h"

namespace weft::data {

class TokenStream {
 public:
  TokenStream(std::vector<TokenStore> stores, uint64_t vocabulary_size, std::optional<TokenId> end_of_text);

  [[nodiscard]] uint64_t size() const { return starts_.back(); }
  // As TokenStore::read; the range must lie inside.
  void read(uint64_t begin, std::span<int64_t> tokens) const;
  // As TokenStore::document_end; a store's end is also a document's.
  [[nodiscard]] uint64_t document_end(uint64_t position, uint64_t limit) const;
  [[nodiscard]] const std::vector<TokenStore>& stores() const { return stores_; }

 private:
  [[nodiscard]] size_t store_at(uint64_t position) const;

  std::vector<TokenStore> stores_;
  std::vector<uint64_t> starts_;  // of each store, and the end of the last
  uint64_t vocabulary_size_;
  std::optional<TokenId> end_of_text_;
};

// Rows of tokens for a model: int64, row-major [rows, length].
struct SampleBatch {
  int64_t rows = 0, length = 0;
  std::vector<int64_t> tokens;      // 0 where a row is padded
  std::vector<int64_t> targets;     // the next token; -1: not predicted
  std::vector<int64_t> positions;   // in the row, or with masked documents in the document's part of the row
  std::vector<int64_t> documents;   // with masked documents the number of the document within the row, else empty
  std::vector<int64_t> sample_ids;  // [rows], global
  int64_t target_tokens = 0;        // targets that are not -1
};

enum class DocumentBorders { kJoin, kMask };

// The tokens t_begin .. t_(end-1) of a stream hold end - begin - 1 pairs of a token and its successor. Windows are runs
// of `length` pairs on the ring that the pairs form; the last is shorter if the length does not divide their number.
// Every pair is in exactly one window, whatever the offset at which the first window starts.
class Windows {
 public:
  // end - begin >= 2. The stream must outlive it.
  Windows(const TokenStream& stream, uint64_t begin, uint64_t end, int64_t length, DocumentBorders borders);

  [[nodiscard]] uint64_t pairs() const { return pairs_; }
  [[nodiscard]] uint64_t count() const;
  // Of the window, when the first starts at pair `offset` < pairs().
  [[nodiscard]] int64_t target_tokens(uint64_t window, uint64_t offset) const;
  // Appends the window as a row of the windows' length.
  void append(uint64_t window, uint64_t offset, int64_t sample_id, SampleBatch& batch) const;

 private:
  struct Run {
    uint64_t pair, count;
  };
  // The window's one or, where it goes over the end, two runs of pairs.
  [[nodiscard]] std::vector<Run> runs(uint64_t window, uint64_t offset) const;

  const TokenStream* stream_;
  uint64_t begin_, pairs_;
  uint64_t length_;
  DocumentBorders borders_;
};

}  // namespace weft::data
