#include "data/pre_tokenizer_splitters.h"

#include <array>

#include "data/tokenizer_regex.h"
#include "data/unicode.h"

namespace weft::data {
namespace {

constexpr std::size_t kNoMatch = 0;

// A text with the tests that the patterns are made of. Positions are bytes; `end` is the end of what is looked at.
class Cursor {
 public:
  explicit Cursor(std::string_view text) : text_(text), table_(category_table()) {}

  [[nodiscard]] std::size_t size() const { return text_.size(); }
  [[nodiscard]] char byte(std::size_t position) const { return position < text_.size() ? text_[position] : '\0'; }

  // The category mask (one bit) of the character at `position`, which moves past it.
  [[nodiscard]] CategoryMask kind(std::size_t& position) const {
    return CategoryMask{1} << table_[next_code_point(text_, position)];
  }
  [[nodiscard]] bool is(std::size_t position, CategoryMask mask) const {
    return position < text_.size() && (kind(position) & mask) != 0;
  }
  // The end of the longest run of characters of `mask` from `position` on.
  [[nodiscard]] std::size_t run(std::size_t position, CategoryMask mask) const {
    while (position < text_.size()) {
      std::size_t next = position;
      if ((kind(next) & mask) == 0) {
        break;
      }
      position = next;
    }
    return position;
  }
  [[nodiscard]] std::size_t run_of_newlines(std::size_t position) const {
    while (byte(position) == '\r' || byte(position) == '\n') {
      ++position;
    }
    return position;
  }

 private:
  std::string_view text_;
  const std::uint8_t* table_;
};

constexpr CategoryMask kEverything = ~CategoryMask{0};

bool is_newline(char c) { return c == '\r' || c == '\n'; }

// \s+(?!\S)|\s+ at a white space character: the run of white space without its last character, which goes to the next
// word, unless the text ends or the run is a single one.
std::size_t white_space(const Cursor& cursor, std::string_view text, std::size_t begin) {
  const std::size_t end = cursor.run(begin, kSpace);
  if (end == cursor.size()) {
    return end;
  }
  std::size_t last = end;
  previous_code_point(text, last);
  return last > begin ? last : end;
}

// \s*[\r\n]+|\s+(?!\S)|\s+
std::size_t white_space_or_newlines(const Cursor& cursor, std::string_view text, std::size_t begin) {
  const std::size_t end = cursor.run(begin, kSpace);
  for (std::size_t i = end; i > begin; --i) {
    if (is_newline(text[i - 1])) {
      return i;
    }
  }
  return white_space(cursor, text, begin);
}

// 's|'t|'re|'ve|'m|'ll|'d at an apostrophe.
std::size_t contraction(const Cursor& cursor, std::size_t begin) {
  const char first = cursor.byte(begin + 1);
  const char second = cursor.byte(begin + 2);
  if (first == 's' || first == 't' || first == 'm' || first == 'd') {
    return begin + 2;
  }
  const bool pair =
      (first == 'r' && second == 'e') || (first == 'v' && second == 'e') || (first == 'l' && second == 'l');
  return pair ? begin + 3 : kNoMatch;
}

// The same in any case. U+017F, the long s, is an s in another case.
std::size_t contraction_in_any_case(const Cursor& cursor, std::size_t begin) {
  const auto lower = [&](std::size_t position) {
    const char c = cursor.byte(position);
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c;
  };
  const char first = lower(begin + 1);
  const char second = lower(begin + 2);
  if (first == 's' || first == 't' || first == 'm' || first == 'd') {
    return begin + 2;
  }
  if (first == '\xC5' && second == '\xBF') {
    return begin + 3;
  }
  const bool pair =
      (first == 'r' && second == 'e') || (first == 'v' && second == 'e') || (first == 'l' && second == 'l');
  return pair ? begin + 3 : kNoMatch;
}

struct Gpt2 {
  static std::size_t match(const Cursor& cursor, std::string_view text, std::size_t begin) {
    if (text[begin] == '\'') {
      if (const std::size_t end = contraction(cursor, begin); end != kNoMatch) {
        return end;
      }
    }
    std::size_t after = text[begin] == ' ' && begin + 1 < text.size() ? begin + 1 : begin;
    CategoryMask kind = cursor.kind(after);
    if ((kind & kSpace) != 0) {
      return white_space(cursor, text, begin);
    }
    const CategoryMask same = (kind & kLetter) != 0   ? kLetter
                              : (kind & kNumber) != 0 ? kNumber
                                                      : kEverything & ~(kLetter | kNumber | kSpace);
    return cursor.run(after, same);
  }
};

// (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,DIGITS}|
// ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
template <int kDigits>
struct Llama3 {
  static std::size_t match(const Cursor& cursor, std::string_view text, std::size_t begin) {
    const char c = text[begin];
    if (c == '\'') {
      if (const std::size_t end = contraction_in_any_case(cursor, begin); end != kNoMatch) {
        return end;
      }
    }
    std::size_t after = begin;
    const CategoryMask kind = cursor.kind(after);
    if ((kind & kLetter) != 0) {
      return cursor.run(after, kLetter);
    }
    if ((kind & kNumber) != 0) {
      for (int count = 1; count < kDigits && cursor.is(after, kNumber); ++count) {
        (void)cursor.kind(after);
      }
      return after;
    }
    if (!is_newline(c) && cursor.is(after, kLetter)) {
      return cursor.run(after, kLetter);
    }
    constexpr CategoryMask kOther = kEverything & ~(kLetter | kNumber | kSpace);
    if ((kind & kOther) != 0 || (c == ' ' && cursor.is(after, kOther))) {
      return cursor.run_of_newlines(cursor.run(after, kOther));
    }
    return white_space_or_newlines(cursor, text, begin);
  }
};

// DeepSeek-V3's third pattern; see known_patterns().
struct DeepSeek3 {
  static std::size_t match(const Cursor& cursor, std::string_view text, std::size_t begin) {
    const char c = text[begin];
    const auto is_ascii_letter = [](char byte) { return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z'); };
    std::size_t after = begin;
    const CategoryMask kind = cursor.kind(after);
    const bool ascii_symbol = c > ' ' && c < '\x7F' && (kind & (kPunctuation | kSymbol)) != 0;
    if (ascii_symbol && is_ascii_letter(cursor.byte(after))) {
      while (is_ascii_letter(cursor.byte(after))) {
        ++after;
      }
      return after;
    }
    constexpr CategoryMask kLetterOrMark = kLetter | kMark;
    if ((kind & kLetterOrMark) != 0) {
      return cursor.run(after, kLetterOrMark);
    }
    constexpr CategoryMask kSign = kPunctuation | kSymbol;
    if ((kind & kSign) == 0 && !is_newline(c) && cursor.is(after, kLetterOrMark)) {
      return cursor.run(after, kLetterOrMark);
    }
    if ((kind & kSign) != 0 || (c == ' ' && cursor.is(after, kSign))) {
      return cursor.run_of_newlines(cursor.run(after, kSign));
    }
    return (kind & kSpace) != 0 ? white_space_or_newlines(cursor, text, begin) : kNoMatch;
  }
};

// \p{N}{1,3}
struct ThreeDigits {
  static std::size_t match(const Cursor& cursor, std::string_view, std::size_t begin) {
    std::size_t after = begin;
    for (int count = 0; count < 3 && cursor.is(after, kNumber); ++count) {
      (void)cursor.kind(after);
    }
    return after == begin ? kNoMatch : after;
  }
};

// [一-龥぀-ゟ゠-ヿ]+
struct ChineseAndKana {
  static std::size_t match(const Cursor& cursor, std::string_view text, std::size_t begin) {
    std::size_t end = begin;
    while (end < cursor.size()) {
      std::size_t next = end;
      const char32_t c = next_code_point(text, next);
      if (!((c >= 0x4E00 && c <= 0x9FA5) || (c >= 0x3040 && c <= 0x30FF))) {
        break;
      }
      end = next;
    }
    return end == begin ? kNoMatch : end;
  }
};

template <typename Pattern>
class HandWritten : public TextSplitter {
 public:
  void each_match(std::string_view text, const std::function<void(std::size_t, std::size_t)>& found) const override {
    const Cursor cursor(text);
    for (std::size_t position = 0; position < text.size();) {
      const std::size_t end = Pattern::match(cursor, text, position);
      if (end == kNoMatch) {
        next_code_point(text, position);
      } else {
        found(position, end);
        position = end;
      }
    }
  }
};

class ByRegex : public TextSplitter {
 public:
  ByRegex(std::string_view pattern, std::string_view origin) : regex_(pattern, origin) {}
  void each_match(std::string_view text, const std::function<void(std::size_t, std::size_t)>& found) const override {
    regex_.each_match(text, found);
  }

 private:
  TokenizerRegex regex_;
};

struct Known {
  std::string_view name;
  std::string_view pattern;
  std::unique_ptr<TextSplitter> (*make)();
};

template <typename Pattern>
std::unique_ptr<TextSplitter> make() {
  return std::make_unique<HandWritten<Pattern>>();
}

constexpr std::array kKnown = {
    Known{"gpt2", kGpt2Pattern, make<Gpt2>},
    Known{
        "qwen2",
        R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
        make<Llama3<1>>},
    Known{
        "llama3",
        R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
        make<Llama3<3>>},
    Known{"deepseek_v3 digits", R"(\p{N}{1,3})", make<ThreeDigits>},
    Known{"deepseek_v3 chinese", "[一-龥぀-ゟ゠-ヿ]+", make<ChineseAndKana>},
    Known{"deepseek_v3 words",
          "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| "
          "?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+",
          make<DeepSeek3>},
};

}  // namespace

std::unique_ptr<TextSplitter> hand_written_splitter(std::string_view pattern) {
  for (const Known& known : kKnown) {
    if (known.pattern == pattern) {
      return known.make();
    }
  }
  return nullptr;
}

std::unique_ptr<TextSplitter> regex_splitter(std::string_view pattern, std::string_view origin) {
  return std::make_unique<ByRegex>(pattern, origin);
}

std::unique_ptr<TextSplitter> make_splitter(std::string_view pattern, std::string_view origin) {
  if (auto splitter = hand_written_splitter(pattern)) {
    return splitter;
  }
  return regex_splitter(pattern, origin);
}

std::vector<KnownPattern> known_patterns() {
  std::vector<KnownPattern> patterns;
  for (const Known& known : kKnown) {
    patterns.push_back({known.name, known.pattern});
  }
  return patterns;
}

}  // namespace weft::data
