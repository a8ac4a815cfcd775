#include "data/token_stream.h"

#include <algorithm>

#include "base/check.h"

namespace weft::data {

TokenStream::TokenStream(std::vector<TokenStore> stores, uint64_t vocabulary_size, std::optional<TokenId> end_of_text)
    : stores_(std::move(stores)), starts_{0}, vocabulary_size_(vocabulary_size), end_of_text_(end_of_text) {
  for (const TokenStore& store : stores_) starts_.push_back(starts_.back() + store.size());
}

size_t TokenStream::store_at(uint64_t position) const {
  WEFT_CHECK(position < size());
  return static_cast<size_t>(std::upper_bound(starts_.begin(), starts_.end(), position) - starts_.begin()) - 1;
}

void TokenStream::read(uint64_t begin, std::span<int64_t> tokens) const {
  WEFT_CHECK(begin <= size() && tokens.size() <= size() - begin);
  while (!tokens.empty()) {
    const size_t store = store_at(begin);
    const size_t count = std::min<uint64_t>(tokens.size(), starts_[store + 1] - begin);
    stores_[store].read(begin - starts_[store], tokens.first(count), vocabulary_size_);
    tokens = tokens.subspan(count);
    begin += count;
  }
}

uint64_t TokenStream::document_end(uint64_t position, uint64_t limit) const {
  WEFT_CHECK(position < limit && limit <= size());
  const size_t store = store_at(position);
  const uint64_t start = starts_[store], store_limit = std::min(limit, starts_[store + 1]);
  return start + stores_[store].document_end(position - start, store_limit - start, end_of_text_);
}

Windows::Windows(const TokenStream& stream, uint64_t begin, uint64_t end, int64_t length, DocumentBorders borders)
    : stream_(&stream),
      begin_(begin),
      pairs_(end - begin - 1),
      length_(static_cast<uint64_t>(length)),
      borders_(borders) {
  WEFT_CHECK(end <= stream.size() && begin < end && end - begin >= 2 && length >= 1);
}

uint64_t Windows::count() const { return (pairs_ + length_ - 1) / length_; }

std::vector<Windows::Run> Windows::runs(uint64_t window, uint64_t offset) const {
  WEFT_CHECK(window < count() && offset < pairs_);
  const uint64_t start = window * length_, total = std::min(length_, pairs_ - start);
  // Neither sum overflows: both are below twice the pairs.
  const uint64_t first = (start + offset) % pairs_, before_end = std::min(total, pairs_ - first);
  std::vector<Run> found = {{first, before_end}};
  if (before_end < total) found.push_back({0, total - before_end});
  return found;
}

int64_t Windows::target_tokens(uint64_t window, uint64_t offset) const {
  uint64_t targets = 0;
  for (const Run& run : runs(window, offset)) {
    targets += run.count;
    if (borders_ == DocumentBorders::kJoin) continue;
    // A pair across a border is not predicted.
    const uint64_t first = begin_ + run.pair, last = first + run.count;
    for (uint64_t at = stream_->document_end(first, last + 1); at <= last; at = stream_->document_end(at, last + 1))
      --targets;
  }
  return static_cast<int64_t>(targets);
}

void Windows::append(uint64_t window, uint64_t offset, int64_t sample_id, SampleBatch& batch) const {
  const bool mask = borders_ == DocumentBorders::kMask;
  std::vector<int64_t> read;
  int64_t document = -1, position = 0;
  uint64_t filled = 0;
  for (const Run& run : runs(window, offset)) {
    const uint64_t first = begin_ + run.pair;
    read.resize(run.count + 1);
    stream_->read(first, read);
    batch.tokens.insert(batch.tokens.end(), read.begin(), read.end() - 1);
    batch.targets.insert(batch.targets.end(), read.begin() + 1, read.end());
    uint64_t border = first;
    for (uint64_t at = first; at < first + run.count; ++at, ++filled) {
      if (mask && at == border) {
        ++document;
        position = 0;
        border = stream_->document_end(at, first + run.count + 1);
      }
      batch.positions.push_back(position++);
      if (!mask) continue;
      batch.documents.push_back(document);
      if (at + 1 == border && border <= first + run.count)
        batch.targets[batch.targets.size() - run.count + (at - first)] = -1;
    }
  }
  // Padding is a document of its own behind everything, so that nothing looks at it.
  if (mask) position = 0;
  for (; filled < length_; ++filled) {
    batch.tokens.push_back(0);
    batch.targets.push_back(-1);
    batch.positions.push_back(position++);
    if (mask) batch.documents.push_back(document + 1);
  }
  const auto row = batch.targets.end() - static_cast<std::ptrdiff_t>(length_);
  batch.target_tokens += static_cast<int64_t>(length_) - std::count(row, batch.targets.end(), -1);
  batch.sample_ids.push_back(sample_id);
  batch.length = static_cast<int64_t>(length_);
  ++batch.rows;
}

}  // namespace weft::data
