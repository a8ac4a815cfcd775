#include "data/bpe.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <limits>

#include <fmt/format.h>

#include "base/check.h"
#include "base/error.h"
#include "data/unicode.h"

namespace weft::data {
namespace {

// Up to here a scan of all ranks for each merge is faster than a queue.
constexpr std::size_t kShortPiece = 32;
constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();

// The raw bytes that a token of the byte-level alphabet stands for; nothing if a character is outside of it.
std::optional<std::string> raw_bytes(std::string_view token) {
  std::string bytes;
  for (std::size_t position = 0; position < token.size();) {
    const int byte = alphabet_to_byte(next_code_point(token, position));
    if (byte < 0) {
      return std::nullopt;
    }
    bytes += static_cast<char>(byte);
  }
  return bytes;
}

std::uint64_t mix(std::uint64_t key) {
  key *= 0x9E3779B97F4A7C15U;
  return key ^ (key >> 32);
}

}  // namespace

bool BpeModel::covers_all_bytes(const Tokens& tokens, const BpeOptions& options) {
  if (!options.continuing_subword_prefix.empty() || !options.end_of_word_suffix.empty()) {
    return false;
  }
  std::array<bool, 256> found{};
  for (const auto& [text, id] : tokens) {
    if (!text.empty() && text.size() <= 2) {
      std::size_t position = 0;
      const int byte = alphabet_to_byte(next_code_point(text, position));
      if (byte >= 0 && position == text.size()) {
        found[static_cast<std::size_t>(byte)] = true;
      }
    }
  }
  return std::all_of(found.begin(), found.end(), [](bool each) { return each; });
}

BpeModel::BpeModel(const Tokens& tokens, const Merges& merges, BpeOptions options, bool pieces_are_bytes,
                   std::string_view origin)
    : options_(std::move(options)),
      pieces_are_bytes_(pieces_are_bytes),
      vocabulary_(tokens, fmt::format("{}: model.vocab", origin)) {
  if (pieces_are_bytes_) {
    WEFT_CHECK(covers_all_bytes(tokens, options_));
    Tokens raw;
    raw.reserve(tokens.size());
    for (const auto& [text, id] : tokens) {
      if (auto bytes = raw_bytes(text)) {
        if (bytes->size() == 1) {
          byte_ids_[static_cast<unsigned char>((*bytes)[0])] = id;
        }
        raw.emplace_back(std::move(*bytes), id);
      }
    }
    pieces_ = TokenVocabulary(raw, origin);
  }
  for (int byte = 0; byte < 256; ++byte) {
    fallback_ids_[static_cast<std::size_t>(byte)] = vocabulary_.find(fmt::format("<0x{:02X}>", byte));
  }
  whole_ = std::make_unique<std::atomic<Whole>[]>(vocabulary_.size());
  add_merges(merges, origin);
}

void BpeModel::add_merges(const Merges& merges, std::string_view origin) {
  pairs_.assign(std::bit_ceil(std::max<std::size_t>(2 * merges.size(), 2)), Pair{kNoPair, kNoMerge});
  const std::size_t prefix = options_.continuing_subword_prefix.size();
  for (std::size_t rank = 0; rank < merges.size(); ++rank) {
    const std::string& left = merges[rank].first;
    const std::string& right = merges[rank].second;
    const auto fail = [&](std::string_view token) {
      throw InputError(fmt::format("{}: merge {} (\"{}\" with \"{}\"): \"{}\" is not a token of the vocabulary", origin,
                                   rank, left, right, token));
    };
    const auto left_id = vocabulary_.find(left);
    const auto right_id = vocabulary_.find(right);
    if (!left_id || !right_id) {
      fail(left_id ? right : left);
    }
    if (right.size() < prefix) {
      throw InputError(
          fmt::format("{}: merge {}: \"{}\" is shorter than the continuing_subword_prefix", origin, rank, right));
    }
    const std::string both = left + right.substr(prefix);
    const auto both_id = vocabulary_.find(both);
    if (!both_id) {
      fail(both);
    }
    insert_pair((std::uint64_t{*left_id} << 32) | *right_id, (std::uint64_t{rank} << 32) | *both_id, origin,
                merges[rank]);
  }
}

void BpeModel::insert_pair(std::uint64_t key, std::uint64_t merge, std::string_view origin,
                           const std::pair<std::string, std::string>& text) {
  const std::size_t mask = pairs_.size() - 1;
  std::size_t slot = mix(key) & mask;
  while (pairs_[slot].key != kNoPair) {
    if (pairs_[slot].key == key) {
      throw InputError(fmt::format("{}: the merge of \"{}\" with \"{}\" is there twice, as merges {} and {}", origin,
                                   text.first, text.second, pairs_[slot].merge >> 32, merge >> 32));
    }
    slot = (slot + 1) & mask;
  }
  pairs_[slot] = {key, merge};
}

std::uint64_t BpeModel::find_merge(TokenId left, TokenId right) const {
  const std::uint64_t key = (std::uint64_t{left} << 32) | right;
  const std::size_t mask = pairs_.size() - 1;
  for (std::size_t slot = mix(key) & mask;; slot = (slot + 1) & mask) {
    if (pairs_[slot].key == key) {
      return pairs_[slot].merge;
    }
    if (pairs_[slot].key == kNoPair) {
      return kNoMerge;
    }
  }
}

void BpeModel::encode(std::string_view piece, BpeWorkspace& workspace, std::vector<TokenId>& ids) const {
  const auto token = (pieces_are_bytes_ ? pieces_ : vocabulary_).find(piece);
  if (token) {
    const Whole whole = options_.ignore_merges ? Whole::Yes : whole_[*token].load(std::memory_order_relaxed);
    if (whole == Whole::Yes) {
      ids.push_back(*token);
      return;
    }
  }
  workspace.ids.clear();
  if (pieces_are_bytes_) {
    for (const char byte : piece) {
      workspace.ids.push_back(byte_ids_[static_cast<unsigned char>(byte)]);
    }
  } else {
    first_symbols(piece, workspace.ids);
  }
  merge(workspace);
  if (token) {
    const bool is_whole = workspace.ids.size() == 1 && workspace.ids[0] == *token;
    whole_[*token].store(is_whole ? Whole::Yes : Whole::No, std::memory_order_relaxed);
  }
  ids.insert(ids.end(), workspace.ids.begin(), workspace.ids.end());
}

void BpeModel::first_symbols(std::string_view piece, std::vector<TokenId>& ids) const {
  const std::string& prefix = options_.continuing_subword_prefix;
  const std::string& suffix = options_.end_of_word_suffix;
  std::string decorated;
  bool pending = false;
  for (std::size_t position = 0; position < piece.size();) {
    const std::size_t start = position;
    next_code_point(piece, position);
    std::string_view symbol = piece.substr(start, position - start);
    const bool prefixed = start > 0 && !prefix.empty();
    const bool suffixed = position == piece.size() && !suffix.empty();
    if (prefixed || suffixed) {
      decorated = (prefixed ? prefix : std::string()) + std::string(symbol) + (suffixed ? suffix : std::string());
      symbol = decorated;
    }
    if (const auto id = vocabulary_.find(symbol)) {
      if (pending) {
        ids.push_back(*vocabulary_.find(options_.unknown_token));
        pending = false;
      }
      ids.push_back(*id);
    } else {
      unknown_symbol(symbol, pending, ids);
    }
  }
  if (pending) {
    ids.push_back(*vocabulary_.find(options_.unknown_token));
  }
}

// An unknown token is added when the next known character comes, not before: with byte_fallback, `tokenizers` lets the
// bytes of a later character overtake it, and so does this.
void BpeModel::unknown_symbol(std::string_view symbol, bool& pending, std::vector<TokenId>& ids) const {
  const auto fallback = [&](char byte) { return fallback_ids_[static_cast<unsigned char>(byte)]; };
  if (options_.byte_fallback &&
      std::all_of(symbol.begin(), symbol.end(), [&](char b) { return fallback(b).has_value(); })) {
    for (const char byte : symbol) {
      ids.push_back(*fallback(byte));
    }
    return;
  }
  if (options_.unknown_token.empty()) {
    return;
  }
  const auto unknown = vocabulary_.find(options_.unknown_token);
  if (!unknown) {
    throw InputError(
        fmt::format("the text holds \"{}\", which is not in the vocabulary, and neither is the unk_token \"{}\"",
                    symbol, options_.unknown_token));
  }
  if (pending && !options_.fuse_unknown) {
    ids.push_back(*unknown);
  }
  pending = true;
}

void BpeModel::merge(BpeWorkspace& workspace) const {
  std::size_t count = workspace.ids.size();
  if (count <= kShortPiece) {
    merge_short(workspace.ids.data(), count);
    workspace.ids.resize(count);
  } else {
    merge_long(workspace);
  }
}

void BpeModel::merge_short(TokenId* ids, std::size_t& count) const {
  if (count < 2) {
    return;
  }
  std::array<std::uint64_t, kShortPiece> merges;
  for (std::size_t i = 0; i + 1 < count; ++i) {
    merges[i] = find_merge(ids[i], ids[i + 1]);
  }
  while (count > 1) {
    // The rank is in the upper half, so the smallest entry is the next merge; of equal ones the first.
    std::size_t best = 0;
    for (std::size_t i = 1; i + 1 < count; ++i) {
      if (merges[i] < merges[best]) {
        best = i;
      }
    }
    if (merges[best] == kNoMerge) {
      return;
    }
    ids[best] = static_cast<TokenId>(merges[best]);
    std::copy(ids + best + 2, ids + count, ids + best + 1);
    std::copy(merges.begin() + static_cast<std::ptrdiff_t>(best) + 1,
              merges.begin() + static_cast<std::ptrdiff_t>(count) - 1,
              merges.begin() + static_cast<std::ptrdiff_t>(best));
    --count;
    if (best + 1 < count) {
      merges[best] = find_merge(ids[best], ids[best + 1]);
    }
    if (best > 0) {
      merges[best - 1] = find_merge(ids[best - 1], ids[best]);
    }
  }
}

// A queue of (rank, position), smallest first. An entry is out of date when the pair now at its position has another
// rank.
void BpeModel::merge_long(BpeWorkspace& workspace) const {
  auto& symbols = workspace.symbols;
  auto& queue = workspace.queue;
  const std::size_t count = workspace.ids.size();
  if (count >= kNone) {
    throw Error(fmt::format("a piece of {} symbols is too long for one merge", count));
  }
  symbols.resize(count);
  queue.clear();
  const auto enqueue = [&](std::uint32_t position) {
    const std::uint64_t merge = find_merge(symbols[position].id, symbols[symbols[position].next].id);
    if (merge != kNoMerge) {
      queue.push_back((merge >> 32 << 32) | position);
      return true;
    }
    return false;
  };
  for (std::uint32_t i = 0; i < count; ++i) {
    symbols[i] = {workspace.ids[i], i == 0 ? kNone : i - 1, i + 1 == count ? kNone : i + 1};
  }
  for (std::uint32_t i = 0; i + 1 < count; ++i) {
    enqueue(i);
  }
  std::make_heap(queue.begin(), queue.end(), std::greater<>());
  while (!queue.empty()) {
    std::pop_heap(queue.begin(), queue.end(), std::greater<>());
    const std::uint64_t entry = queue.back();
    queue.pop_back();
    const auto position = static_cast<std::uint32_t>(entry);
    BpeWorkspace::Symbol& left = symbols[position];
    if (left.id == kNone || left.next == kNone) {
      continue;
    }
    BpeWorkspace::Symbol& right = symbols[left.next];
    const std::uint64_t merge = find_merge(left.id, right.id);
    if (merge == kNoMerge || merge >> 32 != entry >> 32) {
      continue;
    }
    left.id = static_cast<TokenId>(merge);
    right.id = kNone;
    left.next = right.next;
    if (left.next != kNone) {
      symbols[left.next].previous = position;
      if (enqueue(position)) {
        std::push_heap(queue.begin(), queue.end(), std::greater<>());
      }
    }
    if (left.previous != kNone && enqueue(left.previous)) {
      std::push_heap(queue.begin(), queue.end(), std::greater<>());
    }
  }
  workspace.ids.clear();
  for (std::uint32_t i = 0; i != kNone; i = symbols[i].next) {
    workspace.ids.push_back(symbols[i].id);
  }
}

}  // namespace weft::data
