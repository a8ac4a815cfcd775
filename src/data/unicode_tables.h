// Generated tables behind data/unicode.h.
#pragma once

#include <cstddef>
#include <cstdint>

namespace weft::data {

struct CodePointRange {
  char32_t first;
  char32_t last;  // included
};

namespace tables {

extern const std::uint32_t kCategoryRuns[];
extern const std::size_t kCategoryRunsCount;
extern const CodePointRange kNewerThanUnicode14[];
extern const std::size_t kNewerThanUnicode14Count;
extern const CodePointRange kPunctuationExceptions[];
extern const std::size_t kPunctuationExceptionsCount;
extern const CodePointRange kNormalizationUnknown[];
extern const std::size_t kNormalizationUnknownCount;

}  // namespace tables
}  // namespace weft::data
