// Pre-tokenizers cut a text into the pieces that byte pair encoding works on. They form a chain: each takes pieces one
// at a time and passes smaller ones on, so no list of pieces is ever held.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weft::data {

// A part of the text. The first `at_start` bytes stand for the very beginning of the whole input: Metaspace's "first"
// asks.
struct Piece {
  std::string_view text;
  std::size_t at_start = 0;

  [[nodiscard]] Piece part(std::size_t begin, std::size_t end) const {
    const std::size_t left = at_start > begin ? at_start - begin : 0;
    return {text.substr(begin, end - begin), left < end - begin ? left : end - begin};
  }
};

class PieceSink {
 public:
  virtual ~PieceSink() = default;
  // The piece's text lives for the call only. Never empty.
  virtual void take(const Piece& piece) = 0;
};

// Immutable; any thread.
class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  virtual void split(const Piece& piece, PieceSink& sink) const = 0;
};

// What becomes of the parts that a pattern matches.
enum class SplitBehavior { Removed, Isolated, MergedWithPrevious, MergedWithNext, Contiguous };

enum class PrependScheme { Never, First, Always };

std::unique_ptr<PreTokenizer> split_by_pattern(std::string_view pattern, SplitBehavior behavior, bool invert,
                                               std::string_view origin);
std::unique_ptr<PreTokenizer> split_digits(bool individual);
std::unique_ptr<PreTokenizer> split_punctuation(SplitBehavior behavior);
std::unique_ptr<PreTokenizer> split_words_and_symbols();  // Whitespace
std::unique_ptr<PreTokenizer> split_at_whitespace();      // WhitespaceSplit
std::unique_ptr<PreTokenizer> metaspace(std::string replacement, PrependScheme scheme, bool split);

// ByteLevel. `to_alphabet` writes each byte as its character of the byte-level alphabet; without it the pieces stay raw
// bytes, which is the same for a model whose pieces are bytes.
std::unique_ptr<PreTokenizer> byte_level(bool add_prefix_space, bool use_regex, bool to_alphabet);

// One after the other; an empty chain passes everything on.
std::unique_ptr<PreTokenizer> chain(std::vector<std::unique_ptr<PreTokenizer>> stages);

}  // namespace weft::data
