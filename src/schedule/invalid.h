// How the parts of the validator say what is wrong; never leaves the room.
#pragma once

#include <string>
#include <utility>

#include <fmt/format.h>

namespace weft::schedule {

struct Invalid {
  std::string reason;
};

template <typename... Arguments>
[[noreturn]] void fail(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  throw Invalid{fmt::format(format, std::forward<Arguments>(arguments)...)};
}

}  // namespace weft::schedule
