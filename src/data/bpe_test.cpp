#include "data/bpe.h"

#include <algorithm>
#include <random>

#include <gtest/gtest.h>

namespace weft::data {
namespace {

// The definition, as slowly as it can be: the first pair of the lowest rank is merged until there is none.
std::vector<std::string> merged_by_definition(std::vector<std::string> symbols, const BpeModel::Merges& merges) {
  while (true) {
    std::size_t best_rank = merges.size();
    std::size_t best = 0;
    for (std::size_t i = 0; i + 1 < symbols.size(); ++i) {
      const auto found = std::find(merges.begin(), merges.end(), std::pair(symbols[i], symbols[i + 1]));
      const auto rank = static_cast<std::size_t>(found - merges.begin());
      if (rank < best_rank) {
        best_rank = rank;
        best = i;
      }
    }
    if (best_rank == merges.size()) {
      return symbols;
    }
    symbols[best] += symbols[best + 1];
    symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
}

std::vector<std::string> encoded(const BpeModel& model, std::string_view piece) {
  BpeWorkspace workspace;
  std::vector<TokenId> ids;
  model.encode(piece, workspace, ids);
  std::vector<std::string> tokens;
  for (const TokenId id : ids) {
    tokens.emplace_back(model.vocabulary().text(id));
  }
  return tokens;
}

// Random merges over three letters, in an order in which some tokens cannot be reached; pieces on both sides of the
// border between the scan and the queue, each twice, since the first time finds out whether a token is whole.
TEST(Bpe, EqualsTheDefinition) {
  std::mt19937 random(3);
  for (int round = 0; round < 60; ++round) {
    BpeModel::Tokens tokens = {{"a", 0}, {"b", 1}, {"c", 2}};
    BpeModel::Merges merges;
    while (merges.size() < 25) {
      const std::string left = tokens[random() % tokens.size()].first;
      const std::string right = tokens[random() % tokens.size()].first;
      const bool known =
          std::any_of(tokens.begin(), tokens.end(), [&](const auto& t) { return t.first == left + right; });
      if (std::find(merges.begin(), merges.end(), std::pair(left, right)) != merges.end()) {
        continue;
      }
      if (!known) {
        tokens.emplace_back(left + right, static_cast<TokenId>(tokens.size()));
      }
      merges.emplace_back(left, right);
    }
    std::shuffle(merges.begin(), merges.end(), random);
    const BpeModel model(tokens, merges, {}, false, "test");
    for (int word = 0; word < 40; ++word) {
      std::string piece(1 + random() % (word % 2 == 0 ? 8 : 80), 'a');
      std::vector<std::string> symbols;
      for (char& c : piece) {
        c = static_cast<char>('a' + random() % 3);
        symbols.emplace_back(1, c);
      }
      const auto expected = merged_by_definition(symbols, merges);
      ASSERT_EQ(encoded(model, piece), expected) << piece;
      ASSERT_EQ(encoded(model, piece), expected) << piece;
    }
    for (const auto& [text, id] : tokens) {
      std::vector<std::string> symbols;
      for (const char c : text) {
        symbols.emplace_back(1, c);
      }
      ASSERT_EQ(encoded(model, text), merged_by_definition(symbols, merges)) << text;
    }
  }
}

TEST(Bpe, IgnoreMergesTakesWholeTokens) {
  const BpeModel::Tokens tokens = {{"a", 0}, {"b", 1}, {"ab", 2}, {"abb", 3}};
  BpeOptions options;
  EXPECT_EQ(encoded(BpeModel(tokens, {{"a", "b"}}, options, false, "test"), "abb"),
            (std::vector<std::string>{"ab", "b"}));
  options.ignore_merges = true;
  EXPECT_EQ(encoded(BpeModel(tokens, {{"a", "b"}}, options, false, "test"), "abb"), (std::vector<std::string>{"abb"}));
}

TEST(Bpe, UnknownCharacters) {
  const BpeModel::Tokens tokens = {{"a", 0}, {"<unk>", 1}, {"<0xC3>", 2}, {"<0xA9>", 3}};
  using Texts = std::vector<std::string>;
  BpeOptions options;
  EXPECT_EQ(encoded(BpeModel(tokens, {}, options, false, "test"), "axyay"), (Texts{"a", "a"}));
  options.unknown_token = "<unk>";
  EXPECT_EQ(encoded(BpeModel(tokens, {}, options, false, "test"), "axya"), (Texts{"a", "<unk>", "<unk>", "a"}));
  options.fuse_unknown = true;
  EXPECT_EQ(encoded(BpeModel(tokens, {}, options, false, "test"), "axya"), (Texts{"a", "<unk>", "a"}));
  options.byte_fallback = true;
  EXPECT_EQ(encoded(BpeModel(tokens, {}, options, false, "test"), "a\u00e9y"),
            (Texts{"a", "<0xC3>", "<0xA9>", "<unk>"}));
}

TEST(Bpe, PrefixAndSuffix) {
  const BpeModel::Tokens tokens = {{"a", 0}, {"##b", 1}, {"##b</w>", 2}, {"ab", 3}, {"ab</w>", 4}, {"a</w>", 5}};
  BpeOptions options;
  options.continuing_subword_prefix = "##";
  options.end_of_word_suffix = "</w>";
  const BpeModel model(tokens, {{"a", "##b"}, {"a", "##b</w>"}}, options, false, "test");
  EXPECT_EQ(encoded(model, "abb"), (std::vector<std::string>{"ab", "##b</w>"}));
  EXPECT_EQ(encoded(model, "ab"), (std::vector<std::string>{"ab</w>"}));
  EXPECT_EQ(encoded(model, "a"), (std::vector<std::string>{"a</w>"}));
}

}  // namespace
}  // namespace weft::data
