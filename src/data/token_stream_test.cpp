#include "data/token_stream.h"

#include <algorithm>
#include <set>

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/philox.h"

namespace weft::data {
namespace {

// Tokens are their own places, so that a row shows where it comes from.
std::vector<uint16_t> counted(uint16_t first, uint16_t count) {
  std::vector<uint16_t> tokens;
  for (uint16_t i = 0; i < count; ++i) tokens.push_back(static_cast<uint16_t>(first + i));
  return tokens;
}

TokenStream three_stores() {
  return TokenStream({TokenStore("a", counted(0, 5), {0, 3}), TokenStore("empty", counted(0, 0), {}),
                      TokenStore("b", counted(5, 1), {}), TokenStore("c", counted(6, 14), {0, 2, 2, 9})},
                     1000, std::nullopt);
}

TEST(TokenStream, ReadsAcrossStores) {
  const TokenStream stream = three_stores();
  EXPECT_EQ(stream.size(), 20U);
  for (uint64_t begin = 0; begin <= 20; ++begin) {
    for (uint64_t end = begin; end <= 20; ++end) {
      std::vector<int64_t> read(end - begin);
      stream.read(begin, read);
      for (uint64_t i = begin; i < end; ++i) ASSERT_EQ(read[i - begin], static_cast<int64_t>(i));
    }
  }
}

TEST(TokenStream, DocumentsEndWithStoresToo) {
  const TokenStream stream = three_stores();
  const std::set<uint64_t> borders = {3, 5, 6, 8, 15};
  for (uint64_t position = 0; position < 20; ++position) {
    for (uint64_t limit = position + 1; limit <= 20; ++limit) {
      const auto next = borders.upper_bound(position);
      const uint64_t expected = next == borders.end() ? limit : std::min(limit, *next);
      ASSERT_EQ(stream.document_end(position, limit), expected) << position << " " << limit;
    }
  }
}

// What a window must be, pair by pair.
struct Pair {
  int64_t token, target, position, document;
};

std::vector<Pair> expected_window(const std::set<uint64_t>& borders, uint64_t begin, uint64_t end, uint64_t length,
                                  bool mask, uint64_t window, uint64_t offset) {
  const uint64_t pairs = end - begin - 1;
  std::vector<Pair> row;
  int64_t document = 0, position = 0;
  for (uint64_t j = 0; j < length; ++j) {
    if (window * length + j >= pairs) {
      const bool first = j == 0 || window * length + j == pairs;
      row.push_back({0, -1, mask && first ? 0 : row.back().position + 1, document + 1});
      continue;
    }
    const uint64_t pair = (offset + window * length + j) % pairs, at = begin + pair;
    const bool starts = j > 0 && (borders.contains(at) || pair == 0);
    if (starts && mask) ++document, position = 0;
    const bool crosses = mask && borders.contains(at + 1);
    row.push_back({static_cast<int64_t>(at), crosses ? -1 : static_cast<int64_t>(at) + 1, position++, document});
  }
  return row;
}

TEST(Windows, EqualTheDefinitionForEveryLengthOffsetAndPart) {
  const TokenStream stream = three_stores();
  const std::set<uint64_t> borders = {3, 5, 6, 8, 15};
  for (const bool mask : {false, true}) {
    for (const auto& [begin, end] : {std::pair<uint64_t, uint64_t>{0, 20}, {0, 2}, {4, 13}, {18, 20}}) {
      for (int64_t length = 1; length <= 25; ++length) {
        const Windows windows(stream, begin, end, length, mask ? DocumentBorders::kMask : DocumentBorders::kJoin);
        for (uint64_t offset = 0; offset < windows.pairs(); ++offset) {
          std::multiset<int64_t> predicted;
          SampleBatch batch;
          int64_t targets = 0;
          for (uint64_t w = 0; w < windows.count(); ++w) {
            windows.append(w, offset, static_cast<int64_t>(100 + w), batch);
            targets += windows.target_tokens(w, offset);
            const auto expected = expected_window(borders, begin, end, static_cast<uint64_t>(length), mask, w, offset);
            const size_t row = w * static_cast<size_t>(length);
            for (size_t j = 0; j < expected.size(); ++j) {
              ASSERT_EQ(batch.tokens[row + j], expected[j].token) << mask << begin << length << offset << w;
              ASSERT_EQ(batch.targets[row + j], expected[j].target) << mask << begin << length << offset << w << j;
              ASSERT_EQ(batch.positions[row + j], expected[j].position) << mask << begin << length << offset << w << j;
              ASSERT_EQ(mask ? batch.documents[row + j] : expected[j].document, expected[j].document);
              if (expected[j].target >= 0) predicted.insert(expected[j].target);
            }
          }
          ASSERT_EQ(batch.rows, static_cast<int64_t>(windows.count()));
          ASSERT_EQ(batch.sample_ids.size(), windows.count());
          ASSERT_EQ(batch.documents.empty(), !mask);
          ASSERT_EQ(batch.target_tokens, targets);
          ASSERT_EQ(static_cast<int64_t>(predicted.size()), targets);
          // Each token but the first of the part (and of a document) is predicted exactly once.
          for (uint64_t t = begin + 1; t < end; ++t) {
            const size_t times = mask && borders.contains(t) ? 0 : 1;
            ASSERT_EQ(predicted.count(static_cast<int64_t>(t)), times);
          }
        }
      }
    }
  }
}

TEST(Windows, ATokenBeyondTheVocabularyIsNamed) {
  const TokenStream stream({TokenStore("small", counted(0, 10), {}), TokenStore("large", counted(90, 20), {})}, 100,
                           std::nullopt);
  const Windows windows(stream, 0, 30, 7, DocumentBorders::kJoin);
  SampleBatch batch;
  windows.append(1, 0, 0, batch);
  try {
    windows.append(3, 0, 0, batch);
    FAIL() << "nothing thrown";
  } catch (const InputError& error) {
    EXPECT_EQ(std::string(error.what()), "large: token 11 is 101, but the vocabulary has the tokens 0 to 99");
  }
}

}  // namespace
}  // namespace weft::data
