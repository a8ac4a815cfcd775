#define PCRE2_CODE_UNIT_WIDTH 8
#include "data/tokenizer_regex.h"

#include <array>
#include <cstdint>
#include <pcre2.h>

#include <fmt/format.h>

#include "base/error.h"
#include "data/unicode.h"

namespace weft::data {
namespace {

// Beyond this a search gives up with an error instead of eating all memory.
constexpr std::size_t kJitStackBytes = std::size_t{64} << 20;

// Scripts of \p{...}: only those in which PCRE2's Unicode 14.0 and Oniguruma's 16.0 agree, or the difference is written
// out.
struct Script {
  std::string_view name;
  std::string_view pattern;
};
constexpr std::array kScripts = {
    Script{"Han", R"(\p{sc:Han}\x{2B739}\x{2EBF0}-\x{2EE5D}\x{31350}-\x{323AF})"},
    Script{"Hiragana", R"(\p{sc:Hiragana}\x{1B132})"},
    Script{"Katakana", R"(\p{sc:Katakana}\x{1B155})"},
    Script{"Hangul", R"(\p{sc:Hangul})"},
    Script{"Thai", R"(\p{sc:Thai})"},
    Script{"Hebrew", R"(\p{sc:Hebrew})"},
    Script{"Greek", R"(\p{sc:Greek})"},
};

std::string written(const std::vector<CodePointRange>& ranges) {
  std::string text;
  for (const CodePointRange& range : ranges) {
    text += range.first == range.last ? fmt::format("\\x{{{:X}}}", static_cast<std::uint32_t>(range.first))
                                      : fmt::format("\\x{{{:X}}}-\\x{{{:X}}}", static_cast<std::uint32_t>(range.first),
                                                    static_cast<std::uint32_t>(range.last));
  }
  return text;
}

std::vector<CodePointRange> complement(const std::vector<CodePointRange>& ranges) {
  std::vector<CodePointRange> result;
  char32_t next = 0;
  for (const CodePointRange& range : ranges) {
    if (range.first > next) {
      result.push_back({next, range.first - 1});
    }
    next = range.last + 1;
  }
  if (next <= 0x10FFFF) {
    result.push_back({next, 0x10FFFF});
  }
  return result;
}

template <typename Predicate>
std::vector<CodePointRange> ranges_where(Predicate predicate) {
  std::vector<CodePointRange> ranges;
  for (char32_t c = 0; c <= 0x10FFFF; ++c) {
    if (predicate(c)) {
      if (!ranges.empty() && ranges.back().last + 1 == c) {
        ranges.back().last = c;
      } else {
        ranges.push_back({c, c});
      }
    }
  }
  return ranges;
}

// Reads a pattern once from left to right.
class Translation {
 public:
  Translation(std::string_view pattern, std::string_view origin) : pattern_(pattern), origin_(origin) {}

  std::string run() {
    while (position_ < pattern_.size()) {
      step();
    }
    if (in_class_) {
      fail("a class is not closed");
    }
    return std::move(result_);
  }

 private:
  [[noreturn]] void fail(std::string_view what) const {
    throw InputError(fmt::format("{}: the regular expression \"{}\": {}", origin_, pattern_, what));
  }
  [[nodiscard]] bool at(std::string_view text) const { return pattern_.substr(position_).starts_with(text); }

  void step() {
    const char c = pattern_[position_];
    if (c == '\\') {
      escape();
    } else if (in_class_) {
      if (c == '[') {
        fail(at("[:") ? "POSIX brackets are not supported" : "a class inside a class is not supported");
      }
      if (at("&&")) {
        fail("the intersection of classes (&&) is not supported");
      }
      in_class_ = !(c == ']' && position_ != class_start_);
      take();
    } else if (c == '[') {
      in_class_ = true;
      take();
      if (position_ < pattern_.size() && pattern_[position_] == '^') {
        take();
      }
      class_start_ = position_;
    } else if (c == '}' && at("}+") && interval_) {
      fail("a possessive interval ({n,m}+) is not supported");
    } else if (at("(?") && !at("(?:") && !at("(?=") && !at("(?!") && !at("(?<=") && !at("(?<!") && !at("(?>") &&
               !at("(?i:") && !at("(?i)")) {
      fail("of the groups that start with (? only (?: (?i: (?i) (?= (?! (?<= (?<! (?> are supported");
    } else {
      interval_ = c == '{' || (interval_ && c != '}');
      take();
    }
  }

  void take() { result_ += pattern_[position_++]; }

  void escape() {
    if (position_ + 1 >= pattern_.size()) {
      fail("it ends in a backslash");
    }
    const char kind = pattern_[position_ + 1];
    switch (kind) {
      case 's':
      case 'S':
        add_set(R"(\t-\r\x{20}\x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})",
                [] { return ranges_of(kSpace); }, kind == 'S');
        break;
      case 'd':
      case 'D':
        add_category(mask_of(Category::Nd), "Nd", kind == 'D');
        break;
      case 'w':
      case 'W':
        add_word(kind == 'W');
        break;
      case 'p':
      case 'P':
        property(kind == 'P');
        return;
      case 'n':
      case 'r':
      case 't':
      case 'f':
      case 'v':
      case 'x':
      case 'b':
      case 'B':
      case 'A':
      case 'z':
      case 'Z':
        if ((kind == 'b' || kind == 'B') && !in_class_) {
          fail("word boundaries (\\b, \\B) are not supported");
        }
        character(kind);
        return;
      default:
        if ((kind >= '0' && kind <= '9') || (kind >= 'a' && kind <= 'z') || (kind >= 'A' && kind <= 'Z')) {
          fail(fmt::format("\\{} is not supported", kind));
        }
        result_ += pattern_.substr(position_, 2);
        position_ += 2;
        return;
    }
    position_ += 2;
    literal_hyphen();
  }

  // An escape that is one character or a place, with the braces of \x{...}.
  void character(char kind) {
    std::size_t length = 2;
    if (kind == 'x' && pattern_.substr(position_ + 2).starts_with('{')) {
      const std::size_t close = pattern_.find('}', position_);
      if (close == std::string_view::npos) {
        fail("\\x{ is not closed");
      }
      length = close + 1 - position_;
    }
    // PCRE2 means any vertical space by \v.
    result_ += kind == 'v' ? std::string_view("\\x0B") : pattern_.substr(position_, length);
    position_ += length;
  }

  // Behind a set a hyphen of a class stands for itself; what the set became may end in a single code point.
  void literal_hyphen() {
    if (in_class_ && at("-")) {
      result_ += "\\-";
      ++position_;
    }
  }

  void property(bool negated) {
    const std::size_t close = pattern_.find('}', position_);
    if (position_ + 2 >= pattern_.size() || pattern_[position_ + 2] != '{' || close == std::string_view::npos) {
      fail("\\p wants a name in braces");
    }
    std::string_view name = pattern_.substr(position_ + 3, close - position_ - 3);
    if (name.starts_with('^')) {
      negated = !negated;
      name.remove_prefix(1);
    }
    if (const CategoryMask mask = mask_by_name(name); mask != 0) {
      add_category(mask, name, negated);
    } else if (const Script* script = find_script(name); script != nullptr && !negated) {
      result_ += in_class_ ? std::string(script->pattern) : fmt::format("[{}]", script->pattern);
    } else if (script != nullptr && !in_class_) {
      result_ += fmt::format("[^{}]", script->pattern);
    } else {
      fail(fmt::format("the property {} is not supported", name));
    }
    position_ = close + 1;
    literal_hyphen();
  }

  static const Script* find_script(std::string_view name) {
    for (const Script& script : kScripts) {
      if (script.name == name) {
        return &script;
      }
    }
    return nullptr;
  }

  void add_word(bool negated) {
    const auto in_class = in_class_ ? is_word_in_oniguruma_class : is_word_in_oniguruma;
    const std::string_view numbers = in_class_ ? "" : R"(\x{B2}\x{B3}\x{B9}\x{BC}-\x{BE})";
    const std::string own =
        fmt::format(R"(\p{{L}}\p{{M}}\p{{Nd}}\p{{Nl}}\p{{Pc}}{}{}\x{{24B6}}-\x{{24E9}}{})", numbers,
                    written(newer_ranges_of(kWord)), R"(\x{1F130}-\x{1F149}\x{1F150}-\x{1F169}\x{1F170}-\x{1F189})");
    add_set(
        own, [in_class] { return ranges_where(in_class); }, negated);
  }

  // PCRE2's own property with what it does not know yet; a table of hundreds of ranges would be slow.
  void add_category(CategoryMask mask, std::string_view name, bool negated) {
    // Those of unassigned code points lost what was assigned since, and Mn lost U+1171E to Mc.
    const CategoryMask lost = mask_of(Category::Cn) | ((mask & mask_of(Category::Mc)) == 0 ? mask_of(Category::Mn) : 0);
    const bool lost_some = (mask & lost) != 0;
    const std::string own = lost_some ? std::string() : fmt::format("\\p{{{}}}", name) + written(newer_ranges_of(mask));
    add_set(
        own, [mask] { return ranges_of(mask); }, negated);
  }

  // `own`: the set inside a class, or empty for all its ranges.
  template <typename Ranges>
  void add_set(const std::string& own, Ranges ranges, bool negated) {
    if (in_class_ && negated) {
      result_ += written(complement(ranges()));
      return;
    }
    const std::string inside = own.empty() ? written(ranges()) : own;
    result_ += in_class_ ? inside : fmt::format("[{}{}]", negated ? "^" : "", inside);
  }

  std::string_view pattern_;
  std::string_view origin_;
  std::size_t position_ = 0;
  std::size_t class_start_ = 0;
  bool in_class_ = false;
  bool interval_ = false;
  std::string result_;
};

std::string message_of(int code) {
  std::array<PCRE2_UCHAR, 256> buffer{};
  pcre2_get_error_message(code, buffer.data(), buffer.size());
  return reinterpret_cast<const char*>(buffer.data());
}

struct FreeMatch {
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
};
struct FreeContext {
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
};
struct FreeStack {
  void operator()(pcre2_jit_stack* stack) const { pcre2_jit_stack_free(stack); }
};

}  // namespace

std::string pcre2_pattern(std::string_view pattern, std::string_view origin) {
  return Translation(pattern, origin).run();
}

std::string literal_pattern(std::string_view text) {
  std::string pattern;
  for (const char c : text) {
    if (std::string_view("\\.+*?()|[]{}^$#&-~").find(c) != std::string_view::npos) {
      pattern += '\\';
    }
    pattern += c;
  }
  return pattern;
}

struct TokenizerRegex::Code {
  ~Code() { pcre2_code_free(code); }
  pcre2_code* code = nullptr;
  std::string pattern;
};

TokenizerRegex::TokenizerRegex(std::string_view pattern, std::string_view origin) : code_(std::make_unique<Code>()) {
  const std::string translated = pcre2_pattern(pattern, origin);
  int error = 0;
  PCRE2_SIZE offset = 0;
  code_->pattern = pattern;
  code_->code =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
                    PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, &error, &offset, nullptr);
  if (code_->code == nullptr) {
    throw InputError(fmt::format("{}: the regular expression \"{}\": {}", origin, pattern, message_of(error)));
  }
  pcre2_jit_compile(code_->code, PCRE2_JIT_COMPLETE);  // without JIT the interpreter does the same, slower
}

TokenizerRegex::~TokenizerRegex() = default;
TokenizerRegex::TokenizerRegex(TokenizerRegex&&) noexcept = default;
TokenizerRegex& TokenizerRegex::operator=(TokenizerRegex&&) noexcept = default;

void TokenizerRegex::each_match(std::string_view text,
                                const std::function<void(std::size_t, std::size_t)>& found) const {
  const std::unique_ptr<pcre2_match_data, FreeMatch> match(pcre2_match_data_create_from_pattern(code_->code, nullptr));
  std::unique_ptr<pcre2_match_context, FreeContext> context;
  std::unique_ptr<pcre2_jit_stack, FreeStack> stack;
  std::size_t position = 0;
  std::size_t previous_end = std::string_view::npos;
  while (position <= text.size() && !text.empty()) {
    const int result = pcre2_match(code_->code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), position,
                                   PCRE2_NO_UTF_CHECK, match.get(), context.get());
    if (result == PCRE2_ERROR_NOMATCH) {
      return;
    }
    if (result == PCRE2_ERROR_JIT_STACKLIMIT && stack == nullptr) {
      stack.reset(pcre2_jit_stack_create(std::size_t{64} << 10, kJitStackBytes, nullptr));
      context.reset(pcre2_match_context_create(nullptr));
      pcre2_jit_stack_assign(context.get(), nullptr, stack.get());
      continue;
    }
    if (result < 0) {
      throw InputError(fmt::format("the regular expression \"{}\" of the tokenizer failed at byte {} of {}: {}",
                                   code_->pattern, position, text.size(), message_of(result)));
    }
    const PCRE2_SIZE* ends = pcre2_get_ovector_pointer(match.get());
    const std::size_t begin = ends[0];
    const std::size_t end = ends[1];
    const bool empty = begin == end;
    if (!empty || begin != previous_end) {
      found(begin, end);
      previous_end = end;
    }
    position = end;
    if (empty) {
      if (end == text.size()) {
        return;
      }
      next_code_point(text, position);
    }
  }
}

}  // namespace weft::data
