#include "base/utf8.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

// Every code point in its only valid form; the encoder is the definition of RFC 3629, section 3.
std::string encode(uint32_t c) {
  const auto tail = [](uint32_t bits) { return static_cast<char>(0x80 | (bits & 0x3F)); };
  if (c < 0x80) return {static_cast<char>(c)};
  if (c < 0x800) return {static_cast<char>(0xC0 | (c >> 6)), tail(c)};
  if (c < 0x10000) return {static_cast<char>(0xE0 | (c >> 12)), tail(c >> 6), tail(c)};
  return {static_cast<char>(0xF0 | (c >> 18)), tail(c >> 12), tail(c >> 6), tail(c)};
}

TEST(Utf8, EveryCodePoint) {
  for (uint32_t c = 0; c < 0x120000; ++c) {
    const bool valid = c <= 0x10FFFF && !(c >= 0xD800 && c <= 0xDFFF);
    ASSERT_EQ(is_utf8(encode(c)), valid) << c;
  }
}

// Any string of three bytes is UTF-8 exactly if it is a concatenation of encodings; counted in closed form: with
// n1 = 128 one-byte, n2 = 1920 two-byte and n3 = 63488 - 2048 three-byte characters, n1^3 + 2 n1 n2 + n3.
TEST(Utf8, EveryThreeBytes) {
  int64_t valid = 0;
  std::string text(3, '\0');
  for (uint32_t word = 0; word < (1u << 24); ++word) {
    for (size_t i = 0; i < 3; ++i) text[i] = static_cast<char>(word >> (8 * i));
    valid += is_utf8(text);
  }
  EXPECT_EQ(valid, 128LL * 128 * 128 + 2LL * 128 * 1920 + (65536 - 2048 - 2048));
}

TEST(Utf8, HoldsBackOnlyWhatCanBeCompleted) {
  const std::string euro = "\xE2\x82\xAC", face = "\xF0\x9F\x98\x80";
  EXPECT_EQ(incomplete_utf8_suffix(""), 0u);
  EXPECT_EQ(incomplete_utf8_suffix("a"), 0u);
  EXPECT_EQ(incomplete_utf8_suffix("a" + euro), 0u);
  for (size_t n = 1; n < 3; ++n) EXPECT_EQ(incomplete_utf8_suffix("a" + euro.substr(0, n)), n);
  for (size_t n = 1; n < 4; ++n) EXPECT_EQ(incomplete_utf8_suffix(euro + face.substr(0, n)), n);
  EXPECT_EQ(incomplete_utf8_suffix("a\x80"), 0u);
  EXPECT_EQ(incomplete_utf8_suffix("a\xFF"), 0u);
  EXPECT_EQ(incomplete_utf8_suffix("a\xED\xA0"), 0u);  // a surrogate: nothing completes it
}

TEST(Utf8, Replaces) {
  const std::string mark = "\xEF\xBF\xBD";
  // The examples of the Unicode standard, table 3-8 and 3-11.
  EXPECT_EQ(replace_invalid_utf8("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41"),
            mark + mark + mark + mark + mark + mark + mark + mark + "A");
  EXPECT_EQ(replace_invalid_utf8("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41"), mark + mark + mark + mark + "A");
}

TEST(Utf8, Position) {
  const std::string text =
      "a\xC3\xA9"
      "b\ncd";
  EXPECT_EQ(text_position(text, 3).column, 3u);
  EXPECT_EQ(text_position(text, 6).line, 2u);
  EXPECT_EQ(text_position(text, 6).column, 2u);
  EXPECT_EQ(first_invalid_utf8("ab\xFFz"), 2u);
}

}  // namespace
}  // namespace weft
