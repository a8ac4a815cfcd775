#define XXH_INLINE_ALL
#include "data/tokenizer_vocabulary.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <xxhash.h>

#include <fmt/format.h>

#include "base/error.h"

namespace weft::data {

TokenVocabulary::TokenVocabulary(const std::vector<std::pair<std::string, TokenId>>& tokens, std::string_view origin) {
  std::size_t bytes = 0;
  TokenId largest = 0;
  for (const auto& [text, id] : tokens) {
    if (id > kLargestTokenId) {
      throw InputError(
          fmt::format("{}: token \"{}\" has the id {}; the largest allowed is {}", origin, text, id, kLargestTokenId));
    }
    if (text.size() > std::numeric_limits<std::uint32_t>::max()) {
      throw InputError(fmt::format("{}: a token of {} bytes is too long", origin, text.size()));
    }
    bytes += text.size();
    largest = std::max(largest, id);
  }
  const std::size_t size = tokens.empty() ? 0 : std::size_t{largest} + 1;
  characters_.reserve(bytes);
  offsets_.resize(size);
  lengths_.resize(size);
  present_.resize(size);
  slots_.assign(std::bit_ceil(std::max<std::size_t>(2 * tokens.size(), 2)), Slot{0, kEmpty});
  for (const auto& [string, id] : tokens) {
    if (present_[id]) {
      throw InputError(fmt::format("{}: tokens \"{}\" and \"{}\" have the same id {}", origin, text(id), string, id));
    }
    if (const auto other = find(string)) {
      throw InputError(fmt::format("{}: token \"{}\" has two ids, {} and {}", origin, string, *other, id));
    }
    offsets_[id] = characters_.size();
    lengths_[id] = static_cast<std::uint32_t>(string.size());
    present_[id] = true;
    characters_ += string;
    const std::uint64_t hash = XXH3_64bits(string.data(), string.size());
    std::size_t slot = hash & (slots_.size() - 1);
    while (slots_[slot].id != kEmpty) {
      slot = (slot + 1) & (slots_.size() - 1);
    }
    slots_[slot] = {static_cast<std::uint32_t>(hash >> 32), id};
    ++count_;
  }
}

std::optional<TokenId> TokenVocabulary::find(std::string_view text) const {
  if (slots_.empty()) {
    return std::nullopt;
  }
  const std::uint64_t hash = XXH3_64bits(text.data(), text.size());
  const auto tag = static_cast<std::uint32_t>(hash >> 32);
  for (std::size_t slot = hash & (slots_.size() - 1); slots_[slot].id != kEmpty;
       slot = (slot + 1) & (slots_.size() - 1)) {
    const Slot& entry = slots_[slot];
    if (entry.tag == tag && lengths_[entry.id] == text.size() &&
        std::equal(text.begin(), text.end(), characters_.begin() + static_cast<std::ptrdiff_t>(offsets_[entry.id]))) {
      return entry.id;
    }
  }
  return std::nullopt;
}

}  // namespace weft::data
