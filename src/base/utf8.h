// Is a text UTF-8, and where does it stop being so. The rules are those of RFC 3629: no overlong forms, no surrogates,
// nothing above U+10FFFF.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace weft {

// The offset of the first byte that does not start a complete, valid character; none if the whole text is UTF-8.
[[nodiscard]] std::optional<size_t> first_invalid_utf8(std::string_view text);

[[nodiscard]] inline bool is_utf8(std::string_view text) { return !first_invalid_utf8(text).has_value(); }

// How many bytes at the end of the text are the beginning of a character that more bytes could complete: 0 to 3. What
// streams text holds these back.
[[nodiscard]] size_t incomplete_utf8_suffix(std::string_view text);

// The text with U+FFFD in place of each maximal invalid part (the substitution that Unicode and WHATWG recommend).
[[nodiscard]] std::string replace_invalid_utf8(std::string_view text);

// Line and column of a byte, both from 1, the column in characters. For messages.
struct TextPosition {
  size_t line = 1;
  size_t column = 1;
};
[[nodiscard]] TextPosition text_position(std::string_view text, size_t offset);

}  // namespace weft
