// UTF-8 (base/utf8.h tells whether a text is) and the properties of code points that tokenizers split by: general
// categories of Unicode 16.0. Everything here is immutable after its first use and may be used from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/unicode_tables.h"

namespace weft::data {

// The general categories in alphabetical order. Two are weft's own: control characters and separators that count as
// white space have an index apart, so that "is white space" is one test.
enum class Category : std::uint8_t {
  Cc,
  Cf,
  Cn,
  Co,
  Cs,
  Ll,
  Lm,
  Lo,
  Lt,
  Lu,
  Mc,
  Me,
  Mn,
  Nd,
  Nl,
  No,
  Pc,
  Pd,
  Pe,
  Pf,
  Pi,
  Po,
  Ps,
  Sc,
  Sk,
  Sm,
  So,
  Zl,
  Zp,
  Zs,
  SpaceControl,  // U+0009 to U+000D and U+0085: of category Cc
};

// Sets of categories are bit masks: bit i is the category i.
using CategoryMask = std::uint32_t;
constexpr CategoryMask mask_of(Category category) { return CategoryMask{1} << static_cast<int>(category); }
template <typename... Rest>
constexpr CategoryMask mask_of(Category first, Rest... rest) {
  return mask_of(first) | mask_of(rest...);
}

constexpr CategoryMask kLetter = mask_of(Category::Ll, Category::Lm, Category::Lo, Category::Lt, Category::Lu);
constexpr CategoryMask kMark = mask_of(Category::Mc, Category::Me, Category::Mn);
constexpr CategoryMask kNumber = mask_of(Category::Nd, Category::Nl, Category::No);
constexpr CategoryMask kPunctuation =
    mask_of(Category::Pc, Category::Pd, Category::Pe, Category::Pf, Category::Pi, Category::Po, Category::Ps);
constexpr CategoryMask kSymbol = mask_of(Category::Sc, Category::Sk, Category::Sm, Category::So);
constexpr CategoryMask kSpace = mask_of(Category::Zl, Category::Zp, Category::Zs, Category::SpaceControl);

// The categories of \w; what it holds beside them, see below.
constexpr CategoryMask kWord = kLetter | kMark | mask_of(Category::Nd, Category::Nl, Category::Pc);

// One Category a code point, U+0000 to U+10FFFF.
const std::uint8_t* category_table();

inline bool has_category(const std::uint8_t* table, char32_t code_point, CategoryMask mask) {
  return ((mask >> table[code_point]) & 1U) != 0;
}
bool has_category(char32_t code_point, CategoryMask mask);

// The code points that `\w` means. In Oniguruma (Split, Replace) it differs inside of a class, [\w], and outside, where
// it holds U+00BD and its like; in Rust's regex (Whitespace, single_word) it is a third set.
bool is_word_in_oniguruma(char32_t code_point);
bool is_word_in_oniguruma_class(char32_t code_point);
bool is_word_in_rust(char32_t code_point);
// Where the Digits and Punctuation pre-tokenizers split.
bool is_numeric(char32_t code_point);
bool is_punctuation(char32_t code_point);

// All code points of a mask, as ranges in ascending order, and those of them that PCRE2 10.42 (Unicode 14.0) does not
// know.
std::vector<CodePointRange> ranges_of(CategoryMask mask);
std::vector<CodePointRange> newer_ranges_of(CategoryMask mask);
// The category by its name of one or two letters ("L", "Lu"); 0 if there is none.
CategoryMask mask_by_name(std::string_view name);

// Decodes the code point at `position` of valid UTF-8 and moves past it.
inline char32_t next_code_point(std::string_view text, std::size_t& position) {
  const auto byte = [&](std::size_t i) { return static_cast<char32_t>(static_cast<unsigned char>(text[i])); };
  const char32_t lead = byte(position);
  if (lead < 0x80) {
    position += 1;
    return lead;
  }
  if (lead < 0xE0) {
    const char32_t result = ((lead & 0x1F) << 6) | (byte(position + 1) & 0x3F);
    position += 2;
    return result;
  }
  if (lead < 0xF0) {
    const char32_t result = ((lead & 0x0F) << 12) | ((byte(position + 1) & 0x3F) << 6) | (byte(position + 2) & 0x3F);
    position += 3;
    return result;
  }
  const char32_t result = ((lead & 0x07) << 18) | ((byte(position + 1) & 0x3F) << 12) |
                          ((byte(position + 2) & 0x3F) << 6) | (byte(position + 3) & 0x3F);
  position += 4;
  return result;
}

// The code point that ends before `position` > 0 of valid UTF-8; moves to its start.
char32_t previous_code_point(std::string_view text, std::size_t& position);

void append_utf8(char32_t code_point, std::string& text);
inline std::size_t utf8_length(char32_t code_point) {
  return code_point < 0x80 ? 1 : code_point < 0x800 ? 2 : code_point < 0x10000 ? 3 : 4;
}

// The alphabet of byte-level BPE: each byte's printable code point (GPT-2's bytes_to_unicode), and back (-1: none).
char32_t byte_to_alphabet(unsigned char byte);
int alphabet_to_byte(char32_t code_point);

}  // namespace weft::data
