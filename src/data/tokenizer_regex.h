// Regular expressions of tokenizer.json. They are written for Oniguruma, with Unicode 16.0; PCRE2 runs them after a
// translation: \s, \w, \d and \p{...} become what Oniguruma means by them, ^ and $ stand at every line, and what the
// two understand differently (\h, nested classes, &&, POSIX brackets, possessive intervals) is refused by name.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weft::data {

// The pattern as PCRE2 takes it. InputError, starting with `origin`, for what is refused.
std::string pcre2_pattern(std::string_view pattern, std::string_view origin);

// `text` escaped so that it matches itself.
std::string literal_pattern(std::string_view text);

// Immutable; any thread may search.
class TokenizerRegex {
 public:
  // InputError, starting with `origin`, if it is no valid pattern or a refused one.
  TokenizerRegex(std::string_view pattern, std::string_view origin);
  ~TokenizerRegex();
  TokenizerRegex(TokenizerRegex&&) noexcept;
  TokenizerRegex& operator=(TokenizerRegex&&) noexcept;

  // Calls `found(begin, end)` for each match in `text` (valid UTF-8), from left to right, without overlaps. An empty
  // match right after another match does not count.
  void each_match(std::string_view text, const std::function<void(std::size_t, std::size_t)>& found) const;

 private:
  struct Code;
  std::unique_ptr<Code> code_;
};

}  // namespace weft::data
