// Normalizers rewrite a text before it is cut into pieces.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace weft::data {

// The first `at_start` bytes stand for the very beginning of the input; see Piece.
struct NormalizedText {
  std::string text;
  std::size_t at_start = 0;
};

// Immutable; any thread. Text is valid UTF-8 before and after.
class Normalizer {
 public:
  virtual ~Normalizer() = default;
  virtual void apply(NormalizedText& text) const = 0;
};

// The forms of Unicode Standard Annex 15, with the data of Unicode 9.0, as `tokenizers` has them: later characters are
// left alone.
enum class UnicodeForm { Nfc, Nfd, Nfkc, Nfkd };

std::unique_ptr<Normalizer> unicode_form(UnicodeForm form);
std::unique_ptr<Normalizer> lowercase();
std::unique_ptr<Normalizer> prepend(std::string prefix);  // not to an empty text
std::unique_ptr<Normalizer> strip(bool left, bool right);
// Every match of the pattern becomes `content`, as it is. InputError, starting with `origin`, for a refused pattern.
std::unique_ptr<Normalizer> replace(std::string_view pattern, std::string content, std::string_view origin);
std::unique_ptr<Normalizer> sequence(std::vector<std::unique_ptr<Normalizer>> stages);

}  // namespace weft::data
