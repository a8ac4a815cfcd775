// WEFT_CHECK states what must hold if the code is right. A failed check is a bug of weft, never a user's mistake, and
// throws Error with the place and the condition.
#pragma once

#include <string_view>

namespace weft {

[[noreturn]] void check_failed(std::string_view condition, const char* file, int line);

}  // namespace weft

#define WEFT_CHECK(condition) \
  ((condition) ? static_cast<void>(0) : ::weft::check_failed(#condition, __FILE__, __LINE__))
