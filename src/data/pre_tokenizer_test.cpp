// The hand-written splitters against the regular expression engine, on random text.
#include "data/pre_tokenizer.h"

#include <array>
#include <random>

#include <gtest/gtest.h>

#include "data/pre_tokenizer_splitters.h"
#include "data/unicode.h"

namespace weft::data {
namespace {

using Matches = std::vector<std::pair<std::size_t, std::size_t>>;

Matches matches_of(const TextSplitter& splitter, std::string_view text) {
  Matches matches;
  splitter.each_match(text, [&](std::size_t begin, std::size_t end) { matches.emplace_back(begin, end); });
  return matches;
}

// Characters that the patterns tell apart, common ones more often than any.
std::string random_text(std::mt19937& random) {
  constexpr std::array kTelling = {U' ',      U' ',      U' ',      U'\n',     U'\r',         U'\t',         U'\'',
                                   U's',      U't',      U'r',      U'e',      U'l',          U'v',          U'S',
                                   U'L',      U'D',      U'a',      U'Z',      U'1',          U'2',          U'.',
                                   U'-',      U'$',      U'^',      U'\u017f', U'\u00a0',     U'\u3000',     U'\u0085',
                                   U'\u2028', U'\u0301', U'\u00bd', U'\u0661', U'\u4e00',     U'\u9fa5',     U'\u9fa6',
                                   U'\u3042', U'\u30ff', U'\u200b', U'\u200d', U'\U0001f600', U'\U0001d7ce', U'\u20ac',
                                   U'\u00e9', U'\u0416', U'\x01',   U'\ufeff', U'\U00010d40', U'\U0001e4d0'};
  std::string text;
  const std::size_t length = random() % 40;
  for (std::size_t i = 0; i < length; ++i) {
    if (random() % 10 != 0) {
      append_utf8(kTelling[random() % kTelling.size()], text);
      continue;
    }
    auto c = static_cast<char32_t>(random() % 0x110000);
    if (random() % 2 == 0) {
      c %= 0x3100;
    }
    append_utf8(c >= 0xD800 && c < 0xE000 ? U'x' : c, text);
  }
  return text;
}

TEST(Splitters, EqualTheEngine) {
  std::mt19937 random(7);
  ASSERT_EQ(known_patterns().size(), 6U);
  for (const KnownPattern& known : known_patterns()) {
    const auto written = hand_written_splitter(known.pattern);
    const auto engine = regex_splitter(known.pattern, "test");
    ASSERT_NE(written, nullptr);
    for (int round = 0; round < 20000; ++round) {
      const std::string text = random_text(random);
      ASSERT_EQ(matches_of(*written, text), matches_of(*engine, text)) << known.name << " on \"" << text << '"';
    }
  }
}

TEST(Splitters, UnknownPatternsGoToTheEngine) {
  EXPECT_EQ(hand_written_splitter("a+"), nullptr);
  EXPECT_EQ(matches_of(*make_splitter("a+", "test"), "baab"), (Matches{{1, 3}}));
}

class Collect : public PieceSink {
 public:
  void take(const Piece& piece) override { pieces.emplace_back(piece.text); }
  std::vector<std::string> pieces;
};

std::vector<std::string> pieces_of(const PreTokenizer& pre_tokenizer, std::string_view text) {
  Collect collect;
  pre_tokenizer.split({text, 1}, collect);
  return collect.pieces;
}

using Pieces = std::vector<std::string>;

// The examples of the documentation of `tokenizers`.
TEST(PreTokenizers, Behaviors) {
  const std::string text = "the-final--countdown";
  const auto pieces = [&](SplitBehavior behavior) {
    return pieces_of(*split_by_pattern("-", behavior, false, "test"), text);
  };
  EXPECT_EQ(pieces(SplitBehavior::Removed), (Pieces{"the", "final", "countdown"}));
  EXPECT_EQ(pieces(SplitBehavior::Isolated), (Pieces{"the", "-", "final", "-", "-", "countdown"}));
  EXPECT_EQ(pieces(SplitBehavior::MergedWithPrevious), (Pieces{"the-", "final-", "-", "countdown"}));
  EXPECT_EQ(pieces(SplitBehavior::MergedWithNext), (Pieces{"the", "-final", "-", "-countdown"}));
  EXPECT_EQ(pieces(SplitBehavior::Contiguous), (Pieces{"the", "-", "final", "--", "countdown"}));
  EXPECT_EQ(pieces_of(*split_by_pattern("-", SplitBehavior::Removed, true, "test"), text), (Pieces{"-", "-", "-"}));
}

TEST(PreTokenizers, Metaspace) {
  const auto pieces = [](PrependScheme scheme, bool split, std::string_view text) {
    return pieces_of(*metaspace("_", scheme, split), text);
  };
  EXPECT_EQ(pieces(PrependScheme::Always, true, "Hey   friend!"), (Pieces{"_Hey", "_", "_", "_friend!"}));
  EXPECT_EQ(pieces(PrependScheme::Never, true, "Hey friend"), (Pieces{"Hey", "_friend"}));
  EXPECT_EQ(pieces(PrependScheme::First, false, "Hey friend"), (Pieces{"_Hey_friend"}));
}

TEST(PreTokenizers, ByteLevelWritesTheAlphabet) {
  EXPECT_EQ(pieces_of(*byte_level(true, true, true), "Hi \u00e9\n"),
            (Pieces{"\u0120Hi", "\u0120\u00c3\u00a9", "\u010a"}));
  EXPECT_EQ(pieces_of(*byte_level(false, false, false), "Hi you"), (Pieces{"Hi you"}));
}

}  // namespace
}  // namespace weft::data
