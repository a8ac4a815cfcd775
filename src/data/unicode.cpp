#include "data/unicode.h"

#include <algorithm>
#include <array>
#include <memory>

#include "base/check.h"

namespace weft::data {
namespace {

constexpr std::size_t kCodePoints = 0x110000;
constexpr std::string_view kCategoryNames = "CcCfCnCoCsLlLmLoLtLuMcMeMnNdNlNoPcPdPePfPiPoPsScSkSmSoZlZpZs";

std::unique_ptr<std::uint8_t[]> make_category_table() {
  auto table = std::make_unique<std::uint8_t[]>(kCodePoints);
  std::size_t position = 0;
  for (std::size_t i = 0; i < tables::kCategoryRunsCount; ++i) {
    const std::size_t length = tables::kCategoryRuns[i] / 32;
    WEFT_CHECK(position + length <= kCodePoints);
    std::fill_n(table.get() + position, length, static_cast<std::uint8_t>(tables::kCategoryRuns[i] % 32));
    position += length;
  }
  WEFT_CHECK(position == kCodePoints);
  for (const char32_t space : {0x09, 0x0A, 0x0B, 0x0C, 0x0D, 0x85}) {
    table[space] = static_cast<std::uint8_t>(Category::SpaceControl);
  }
  return table;
}

bool in_ranges(char32_t code_point, const CodePointRange* ranges, std::size_t count) {
  const CodePointRange* end = ranges + count;
  const CodePointRange* found = std::upper_bound(
      ranges, end, code_point, [](char32_t c, const CodePointRange& range) { return c < range.first; });
  return found != ranges && code_point <= (found - 1)->last;
}

// Letters in circles and squares: symbols that the Unicode property Alphabetic holds.
bool is_enclosed_letter(char32_t c) {
  return (c >= 0x24B6 && c <= 0x24E9) || (c >= 0x1F130 && c <= 0x1F149) || (c >= 0x1F150 && c <= 0x1F169) ||
         (c >= 0x1F170 && c <= 0x1F189);
}

struct Alphabet {
  std::array<char32_t, 256> of_byte;
  std::array<std::int16_t, 512> of_code_point;
};

constexpr Alphabet make_alphabet() {
  Alphabet alphabet{};
  for (std::int16_t& entry : alphabet.of_code_point) {
    entry = -1;
  }
  char32_t next = 256;
  for (int byte = 0; byte < 256; ++byte) {
    const bool printable =
        (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || (byte >= 0xAE && byte <= 0xFF);
    const char32_t code_point = printable ? static_cast<char32_t>(byte) : next++;
    alphabet.of_byte[static_cast<std::size_t>(byte)] = code_point;
    alphabet.of_code_point[code_point] = static_cast<std::int16_t>(byte);
  }
  return alphabet;
}

constexpr Alphabet kAlphabet = make_alphabet();

// Adds a code point behind all that the ranges hold.
void append(std::vector<CodePointRange>& ranges, char32_t c) {
  if (!ranges.empty() && ranges.back().last + 1 == c) {
    ranges.back().last = c;
  } else {
    ranges.push_back({c, c});
  }
}

}  // namespace

const std::uint8_t* category_table() {
  static const std::unique_ptr<std::uint8_t[]> table = make_category_table();
  return table.get();
}

bool has_category(char32_t code_point, CategoryMask mask) { return has_category(category_table(), code_point, mask); }

bool is_word_in_oniguruma(char32_t c) {
  const bool latin_number = c == 0xB2 || c == 0xB3 || c == 0xB9 || (c >= 0xBC && c <= 0xBE);
  return latin_number || is_word_in_oniguruma_class(c);
}

bool is_word_in_oniguruma_class(char32_t c) { return has_category(c, kWord) || is_enclosed_letter(c); }

bool is_word_in_rust(char32_t c) {
  return c == 0x200C || c == 0x200D || has_category(c, kWord) || is_enclosed_letter(c);
}

bool is_numeric(char32_t c) {
  // The last two ranges are of Unicode 17.0, which Rust's char::is_numeric follows.
  return has_category(c, kNumber) || (c >= 0x11DE0 && c <= 0x11DE9) || (c >= 0x16FF4 && c <= 0x16FF6);
}

bool is_punctuation(char32_t c) {
  const bool expected = has_category(c, kPunctuation) || (c < 0x80 && has_category(c, kSymbol));
  return expected != in_ranges(c, tables::kPunctuationExceptions, tables::kPunctuationExceptionsCount);
}

std::vector<CodePointRange> ranges_of(CategoryMask mask) {
  const std::uint8_t* table = category_table();
  std::vector<CodePointRange> ranges;
  for (char32_t c = 0; c < kCodePoints; ++c) {
    if (has_category(table, c, mask)) {
      append(ranges, c);
    }
  }
  return ranges;
}

std::vector<CodePointRange> newer_ranges_of(CategoryMask mask) {
  std::vector<CodePointRange> ranges;
  for (std::size_t i = 0; i < tables::kNewerThanUnicode14Count; ++i) {
    for (char32_t c = tables::kNewerThanUnicode14[i].first; c <= tables::kNewerThanUnicode14[i].last; ++c) {
      if (has_category(c, mask)) {
        append(ranges, c);
      }
    }
  }
  return ranges;
}

CategoryMask mask_by_name(std::string_view name) {
  CategoryMask mask = 0;
  for (std::size_t i = 0; 2 * i < kCategoryNames.size(); ++i) {
    const std::string_view category = kCategoryNames.substr(2 * i, 2);
    if (category == name || (name.size() == 1 && category[0] == name[0])) {
      mask |= CategoryMask{1} << i;
    }
  }
  if ((mask & mask_of(Category::Cc)) != 0) {
    mask |= mask_of(Category::SpaceControl);
  }
  return mask;
}

char32_t previous_code_point(std::string_view text, std::size_t& position) {
  do {
    --position;
  } while (position > 0 && (static_cast<unsigned char>(text[position]) & 0xC0) == 0x80);
  std::size_t forward = position;
  return next_code_point(text, forward);
}

void append_utf8(char32_t c, std::string& text) {
  if (c < 0x80) {
    text += static_cast<char>(c);
  } else if (c < 0x800) {
    text += static_cast<char>(0xC0 | (c >> 6));
    text += static_cast<char>(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    text += static_cast<char>(0xE0 | (c >> 12));
    text += static_cast<char>(0x80 | ((c >> 6) & 0x3F));
    text += static_cast<char>(0x80 | (c & 0x3F));
  } else {
    text += static_cast<char>(0xF0 | (c >> 18));
    text += static_cast<char>(0x80 | ((c >> 12) & 0x3F));
    text += static_cast<char>(0x80 | ((c >> 6) & 0x3F));
    text += static_cast<char>(0x80 | (c & 0x3F));
  }
}

char32_t byte_to_alphabet(unsigned char byte) { return kAlphabet.of_byte[byte]; }

int alphabet_to_byte(char32_t code_point) {
  return code_point < kAlphabet.of_code_point.size() ? kAlphabet.of_code_point[code_point] : -1;
}

}  // namespace weft::data
