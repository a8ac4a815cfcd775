#include "data/tokenizer_added_tokens.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"
#include "data/unicode.h"

namespace weft::data {
namespace {

bool ends_with_word(std::string_view text) {
  std::size_t position = text.size();
  return position > 0 && is_word_in_rust(previous_code_point(text, position));
}

bool starts_with_word(std::string_view text) {
  std::size_t position = 0;
  return !text.empty() && is_word_in_rust(next_code_point(text, position));
}

std::size_t before_spaces(std::string_view text, std::size_t end) {
  while (end > 0) {
    std::size_t previous = end;
    if (!has_category(previous_code_point(text, previous), kSpace)) {
      break;
    }
    end = previous;
  }
  return end;
}

std::size_t behind_spaces(std::string_view text, std::size_t begin) {
  while (begin < text.size()) {
    std::size_t next = begin;
    if (!has_category(next_code_point(text, next), kSpace)) {
      break;
    }
    begin = next;
  }
  return begin;
}

}  // namespace

AddedTokens::AddedTokens(std::vector<AddedToken> tokens, const Normalizer* normalizer, std::string_view origin)
    : tokens_(std::move(tokens)) {
  // Of two patterns that became equal by normalizing, the special one counts, then the first.
  for (const bool special : {true, false}) {
    for (std::uint32_t i = 0; i < tokens_.size(); ++i) {
      AddedToken& token = tokens_[i];
      if (token.special != special) {
        continue;
      }
      by_id_.emplace(token.id, i);
      by_content_.emplace(token.content, i);
      NormalizedText pattern{token.content};
      if (token.normalized && normalizer != nullptr) {
        normalizer->apply(pattern);
      }
      if (pattern.text.empty()) {
        throw InputError(fmt::format("{}: added_tokens: \"{}\" is normalized to nothing", origin, token.content));
      }
      insert(token.normalized ? normalized_ : raw_, pattern.text, i);
      token.written = std::move(pattern.text);
    }
  }
  for (AddedToken& token : tokens_) {
    const auto same = by_content_.find(token.written);
    token.skipped = same != by_content_.end() && tokens_[same->second].special;
  }
}

void AddedTokens::insert(Trie& trie, std::string_view pattern, std::uint32_t token) {
  if (trie.nodes.empty()) {
    trie.nodes.emplace_back();
    trie.first.assign(256, 0);
  }
  std::uint32_t node = 0;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    std::uint32_t child = i == 0 ? trie.first[static_cast<unsigned char>(pattern[0])] : trie.nodes[node].child;
    while (child != 0 && trie.nodes[child].byte != pattern[i]) {
      child = trie.nodes[child].sibling;
    }
    if (child == 0) {
      child = static_cast<std::uint32_t>(trie.nodes.size());
      trie.nodes.push_back({0, i == 0 ? 0 : trie.nodes[node].child, kNoToken, pattern[i]});
      (i == 0 ? trie.first[static_cast<unsigned char>(pattern[0])] : trie.nodes[node].child) = child;
    }
    node = child;
  }
  if (trie.nodes[node].token == kNoToken) {
    trie.nodes[node].token = token;
  }
}

std::uint32_t AddedTokens::longest(const Trie& trie, std::string_view text, std::size_t position, std::size_t& end) {
  std::uint32_t found = kNoToken;
  std::uint32_t node = trie.first[static_cast<unsigned char>(text[position])];
  for (std::size_t i = position; node != 0;) {
    ++i;
    if (trie.nodes[node].token != kNoToken) {
      found = trie.nodes[node].token;
      end = i;
    }
    if (i == text.size()) {
      break;
    }
    node = trie.nodes[node].child;
    while (node != 0 && trie.nodes[node].byte != text[i]) {
      node = trie.nodes[node].sibling;
    }
  }
  return found;
}

const AddedToken* AddedTokens::find(TokenId id) const {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : &tokens_[found->second];
}

std::optional<TokenId> AddedTokens::find(std::string_view content) const {
  const auto found = by_content_.find(std::string(content));
  return found == by_content_.end() ? std::nullopt : std::optional(tokens_[found->second].id);
}

void AddedTokens::split(std::string_view text, bool normalized, bool match_special,
                        const std::function<void(std::size_t, std::size_t)>& in_text,
                        const std::function<void(TokenId)>& in_token) const {
  const Trie& trie = normalized ? normalized_ : raw_;
  std::size_t written = 0;
  for (std::size_t position = 0; !trie.nodes.empty() && position < text.size();) {
    std::size_t end = position;
    const std::uint32_t found = longest(trie, text, position, end);
    if (found == kNoToken) {
      ++position;
      continue;
    }
    const AddedToken& token = tokens_[found];
    std::size_t begin = position;
    position = end;  // a match that is passed over is still used up
    if (token.special && !match_special) {
      continue;
    }
    if (token.single_word && (ends_with_word(text.substr(0, begin)) || starts_with_word(text.substr(end)))) {
      continue;
    }
    if (token.lstrip) {
      begin = std::max(before_spaces(text, begin), written);
    }
    if (token.rstrip) {
      end = behind_spaces(text, end);
    }
    if (written < begin) {
      in_text(written, begin);
    }
    in_token(token.id);
    written = end;
  }
  if (written < text.size()) {
    in_text(written, text.size());
  }
}

}  // namespace weft::data
