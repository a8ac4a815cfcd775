// Hand-written splitters for the regular expressions that most models use, several times as fast as a regular
// expression engine. For each pattern the implementations are, in this order, a splitter that supports exactly this
// pattern, and the engine.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

namespace weft::data {

class TextSplitter {
 public:
  virtual ~TextSplitter() = default;
  // Calls found(begin, end) for each match in `text` (valid UTF-8), as TokenizerRegex::each_match does.
  virtual void each_match(std::string_view text, const std::function<void(std::size_t, std::size_t)>& found) const = 0;
};

// ByteLevel's own pattern.
inline constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

// The splitter of exactly this pattern, or null.
std::unique_ptr<TextSplitter> hand_written_splitter(std::string_view pattern);
// The engine's.
std::unique_ptr<TextSplitter> regex_splitter(std::string_view pattern, std::string_view origin);
// The first of the two that supports the pattern.
std::unique_ptr<TextSplitter> make_splitter(std::string_view pattern, std::string_view origin);

// The patterns that hand_written_splitter() knows, for tests.
struct KnownPattern {
  std::string_view name;
  std::string_view pattern;
};
std::vector<KnownPattern> known_patterns();

}  // namespace weft::data
