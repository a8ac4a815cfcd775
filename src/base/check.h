// WEFT_CHECK states what must hold if the code is right. A failed check is a bug of weft, never a user's mistake, and
// throws Error with the place and the condition.
#pragma once

#include <source_location>
#include <string_view>

namespace weft {

[[noreturn]] void check_failed(std::string_view condition, std::source_location where);

}  // namespace weft

#define WEFT_CHECK(condition) \
  ((condition) ? static_cast<void>(0) : ::weft::check_failed(#condition, std::source_location::current()))
