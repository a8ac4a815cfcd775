// From the strings of tokens back to text, one token at a time: what is certain goes on at once, the rest is held back.
//
// A decoder is a row of steps. A token passes through them as one or more parts; steps such as Fuse make one token of
// all, whose end is known only at the end.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace weft::data {

struct TokenPart {
  std::string_view text;
  bool starts = true;    // the first part of its token
  bool complete = true;  // the last part of its token
};

// One thread at a time.
class TokenSink {
 public:
  virtual ~TokenSink() = default;
  virtual void take(const TokenPart& part) = 0;
  // No more tokens come. Afterwards the sink is as new.
  virtual void finish() = 0;
};

// Immutable; any thread.
class DecoderStep {
 public:
  virtual ~DecoderStep() = default;
  // A sink that does this step's work and passes on to `next`, which must outlive it.
  [[nodiscard]] virtual std::unique_ptr<TokenSink> open(TokenSink& next) const = 0;
};

using DecoderSteps = std::vector<std::unique_ptr<DecoderStep>>;

// Characters of the byte-level alphabet become bytes and the bytes of all tokens UTF-8, broken parts U+FFFD. A token
// with a character outside of the alphabet stands for itself.
std::unique_ptr<DecoderStep> decode_byte_level();
// Tokens <0x00> to <0xFF> become bytes; each run of them is a text, or, where it is not UTF-8, as many U+FFFD.
std::unique_ptr<DecoderStep> decode_byte_fallback();
// In each token, every match of the pattern becomes `content`. InputError, starting with `origin`, for a refused
// pattern.
std::unique_ptr<DecoderStep> decode_replace(std::string_view pattern, std::string content, std::string_view origin);
// Cuts up to `start` characters `content` from the front of each token, and up to `stop` from its end.
std::unique_ptr<DecoderStep> decode_strip(char32_t content, std::size_t start, std::size_t stop);
// All tokens become one.
std::unique_ptr<DecoderStep> decode_fuse();
// The replacement character becomes a space; in the first token it vanishes if `drop_first`.
std::unique_ptr<DecoderStep> decode_metaspace(std::string replacement, bool drop_first);
// Where there is no decoder, a space stands between tokens.
std::unique_ptr<DecoderStep> decode_join_with_spaces();

}  // namespace weft::data
