#include "base/utf8.h"

#include <algorithm>

namespace weft {

namespace {

// What stands at the start of a text: a character of `length` bytes (complete), or `length` bytes that could begin one
// (incomplete: the text ends first), or a maximal part of `length` bytes that cannot.
struct Sequence {
  size_t length = 0;
  bool complete = false;
  bool may_continue = false;
};

Sequence first_sequence(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return {1, true, false};
  size_t length = 0;
  unsigned char low = 0x80, high = 0xBF;  // bounds of the second byte: they exclude overlong forms and surrogates
  if (lead >= 0xC2 && lead <= 0xDF) {
    length = 2;
  } else if (lead >= 0xE0 && lead <= 0xEF) {
    length = 3;
    if (lead == 0xE0) low = 0xA0;
    if (lead == 0xED) high = 0x9F;
  } else if (lead >= 0xF0 && lead <= 0xF4) {
    length = 4;
    if (lead == 0xF0) low = 0x90;
    if (lead == 0xF4) high = 0x8F;
  } else {
    return {1, false, false};
  }
  for (size_t i = 1; i < length; ++i) {
    if (i == text.size()) return {i, false, true};
    if (byte(i) < low || byte(i) > high) return {i, false, false};
    low = 0x80;
    high = 0xBF;
  }
  return {length, true, false};
}

}  // namespace

std::optional<size_t> first_invalid_utf8(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    const Sequence sequence = first_sequence(text.substr(at));
    if (!sequence.complete) return at;
    at += sequence.length;
  }
  return std::nullopt;
}

size_t incomplete_utf8_suffix(std::string_view text) {
  for (size_t length = std::min<size_t>(3, text.size()); length > 0; --length) {
    const Sequence sequence = first_sequence(text.substr(text.size() - length));
    if (sequence.may_continue && sequence.length == length) return length;
  }
  return 0;
}

std::string replace_invalid_utf8(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    const Sequence sequence = first_sequence(text);
    if (sequence.complete) {
      result.append(text.substr(0, sequence.length));
    } else {
      result.append("\xEF\xBF\xBD");
    }
    text.remove_prefix(sequence.length);
  }
  return result;
}

TextPosition text_position(std::string_view text, size_t offset) {
  TextPosition position;
  for (const char c : text.substr(0, std::min(offset, text.size()))) {
    if (c == '\n') {
      ++position.line;
      position.column = 1;
    } else if ((static_cast<unsigned char>(c) & 0xC0) != 0x80) {
      ++position.column;
    }
  }
  return position;
}

}  // namespace weft
