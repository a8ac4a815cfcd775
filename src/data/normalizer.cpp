#include "data/normalizer.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <utf8proc.h>

#include "base/check.h"
#include "base/error.h"
#include "data/tokenizer_regex.h"
#include "data/unicode.h"

namespace weft::data {
namespace {

bool is_unknown(char32_t c) {
  const CodePointRange* begin = tables::kNormalizationUnknown;
  const CodePointRange* end = begin + tables::kNormalizationUnknownCount;
  const CodePointRange* found =
      std::upper_bound(begin, end, c, [](char32_t value, const CodePointRange& range) { return value < range.first; });
  return found != begin && c <= (found - 1)->last;
}

int options_of(UnicodeForm form) {
  switch (form) {
    case UnicodeForm::Nfc:
      return UTF8PROC_COMPOSE | UTF8PROC_STABLE;
    case UnicodeForm::Nfd:
      return UTF8PROC_DECOMPOSE | UTF8PROC_STABLE;
    case UnicodeForm::Nfkc:
      return UTF8PROC_COMPOSE | UTF8PROC_COMPAT | UTF8PROC_STABLE;
    case UnicodeForm::Nfkd:
      return UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT | UTF8PROC_STABLE;
  }
  check_failed("a known form", __FILE__, __LINE__);
}

class InUnicodeForm : public Normalizer {
 public:
  explicit InUnicodeForm(UnicodeForm form) : options_(static_cast<utf8proc_option_t>(options_of(form))) {
    // Below these no character changes in the form, nor composes with the one before it.
    unchanged_below_ = form == UnicodeForm::Nfc ? 0x300 : form == UnicodeForm::Nfd ? 0xC0 : 0xA0;
  }

  void apply(NormalizedText& text) const override {
    std::size_t position = 0;
    while (position < text.text.size()) {
      std::size_t next = position;
      if (next_code_point(text.text, next) >= unchanged_below_) {
        break;
      }
      position = next;
    }
    if (position == text.text.size()) {
      return;
    }
    if (text.at_start > 0) {
      text.at_start = normalized(std::string_view(text.text).substr(0, text.at_start)).size();
    }
    text.text = normalized(text.text);
    // A mark behind the start may have joined its last character.
    while (text.at_start < text.text.size() && (static_cast<unsigned char>(text.text[text.at_start]) & 0xC0) == 0x80) {
      ++text.at_start;
    }
    text.at_start = std::min(text.at_start, text.text.size());
  }

 private:
  // Characters that the form does not know stand still and hold what is before and behind them apart.
  [[nodiscard]] std::string normalized(std::string_view text) const {
    std::string result;
    std::size_t begin = 0;
    for (std::size_t position = 0; position < text.size();) {
      const std::size_t here = position;
      if (is_unknown(next_code_point(text, position))) {
        append_known(text.substr(begin, here - begin), result);
        result.append(text.substr(here, position - here));
        begin = position;
      }
    }
    append_known(text.substr(begin), result);
    return result;
  }

  void append_known(std::string_view text, std::string& result) const {
    if (text.empty()) {
      return;
    }
    utf8proc_uint8_t* mapped = nullptr;
    const utf8proc_ssize_t length = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                                 static_cast<utf8proc_ssize_t>(text.size()), &mapped, options_);
    const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(mapped, &std::free);
    if (length < 0) {
      throw Error(std::string("normalizing a text failed: ") + utf8proc_errmsg(length));
    }
    result.append(reinterpret_cast<const char*>(mapped), static_cast<std::size_t>(length));
  }

  utf8proc_option_t options_;
  char32_t unchanged_below_;
};

// Lower case letters that came after utf8proc's Unicode 14.0, by the upper case ones.
struct LowerRange {
  char32_t first;
  char32_t last;
  char32_t lower_of_first;
};
constexpr std::array kNewerLower = {
    LowerRange{0x1C89, 0x1C89, 0x1C8A},    LowerRange{0xA7CB, 0xA7CB, 0x264},  LowerRange{0xA7CC, 0xA7CC, 0xA7CD},
    LowerRange{0xA7CE, 0xA7CE, 0xA7CF},    LowerRange{0xA7D2, 0xA7D2, 0xA7D3}, LowerRange{0xA7D4, 0xA7D4, 0xA7D5},
    LowerRange{0xA7DA, 0xA7DA, 0xA7DB},    LowerRange{0xA7DC, 0xA7DC, 0x19B},  LowerRange{0x10D50, 0x10D65, 0x10D70},
    LowerRange{0x16EA0, 0x16EB8, 0x16EBB},
};

char32_t lower_of(char32_t c) {
  for (const LowerRange& range : kNewerLower) {
    if (c >= range.first && c <= range.last) {
      return range.lower_of_first + (c - range.first);
    }
  }
  return static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c)));
}

class Lowercase : public Normalizer {
 public:
  void apply(NormalizedText& text) const override {
    std::string result;
    std::size_t at_start = 0;
    for (std::size_t position = 0; position < text.text.size();) {
      const bool starts = position < text.at_start;
      const char32_t c = next_code_point(text.text, position);
      if (c == 0x130) {
        result += "i\xCC\x87";  // the one character whose lower case is two
      } else {
        append_utf8(lower_of(c), result);
      }
      if (starts) {
        at_start = result.size();
      }
    }
    text = {std::move(result), at_start};
  }
};

class Prepend : public Normalizer {
 public:
  explicit Prepend(std::string prefix) : prefix_(std::move(prefix)) {}
  void apply(NormalizedText& text) const override {
    if (!text.text.empty()) {
      text.text.insert(0, prefix_);
      text.at_start += text.at_start > 0 ? prefix_.size() : 0;
    }
  }

 private:
  std::string prefix_;
};

class Strip : public Normalizer {
 public:
  Strip(bool left, bool right) : left_(left), right_(right) {}
  void apply(NormalizedText& text) const override {
    std::size_t begin = 0;
    std::size_t end = text.text.size();
    for (std::size_t next = begin; left_ && next < end;) {
      if (!has_category(next_code_point(text.text, next), kSpace)) {
        break;
      }
      begin = next;
    }
    for (std::size_t previous = end; right_ && previous > begin;) {
      if (!has_category(previous_code_point(text.text, previous), kSpace)) {
        break;
      }
      end = previous;
    }
    text.at_start = std::min(text.at_start, end) - std::min(text.at_start, begin);
    text.text = text.text.substr(begin, end - begin);
  }

 private:
  bool left_;
  bool right_;
};

class Replace : public Normalizer {
 public:
  Replace(TokenizerRegex regex, std::string content) : regex_(std::move(regex)), content_(std::move(content)) {}

  void apply(NormalizedText& text) const override {
    std::string result;
    std::size_t at_start = 0;
    std::size_t position = 0;
    // What is put in stands for the place of the last byte that it replaces.
    const auto keep = [&](std::size_t end) {
      const std::size_t kept_start = std::min(end, text.at_start);
      result.append(text.text, position, end - position);
      if (kept_start > position) {
        at_start = result.size() - (end - kept_start);
      }
      position = end;
    };
    regex_.each_match(text.text, [&](std::size_t begin, std::size_t end) {
      keep(begin);
      result += content_;
      if (end > 0 && end - 1 < text.at_start && at_start == result.size() - content_.size()) {
        at_start = result.size();
      }
      position = end;
    });
    keep(text.text.size());
    text = {std::move(result), at_start};
  }

 private:
  TokenizerRegex regex_;
  std::string content_;
};

class Sequence : public Normalizer {
 public:
  explicit Sequence(std::vector<std::unique_ptr<Normalizer>> stages) : stages_(std::move(stages)) {}
  void apply(NormalizedText& text) const override {
    for (const auto& stage : stages_) {
      stage->apply(text);
    }
  }

 private:
  std::vector<std::unique_ptr<Normalizer>> stages_;
};

}  // namespace

std::unique_ptr<Normalizer> unicode_form(UnicodeForm form) { return std::make_unique<InUnicodeForm>(form); }
std::unique_ptr<Normalizer> lowercase() { return std::make_unique<Lowercase>(); }
std::unique_ptr<Normalizer> prepend(std::string prefix) { return std::make_unique<Prepend>(std::move(prefix)); }
std::unique_ptr<Normalizer> strip(bool left, bool right) { return std::make_unique<Strip>(left, right); }

std::unique_ptr<Normalizer> replace(std::string_view pattern, std::string content, std::string_view origin) {
  return std::make_unique<Replace>(TokenizerRegex(pattern, origin), std::move(content));
}

std::unique_ptr<Normalizer> sequence(std::vector<std::unique_ptr<Normalizer>> stages) {
  return std::make_unique<Sequence>(std::move(stages));
}

}  // namespace weft::data
