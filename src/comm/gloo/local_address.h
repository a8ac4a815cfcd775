// Which of this machine's addresses leads to another.
#pragma once

#include <string>

namespace weft::comm {

// The address that a packet to `host` would have as its source; InputError if the name is unknown. Nothing is sent.
[[nodiscard]] std::string local_address_towards(const std::string& host);

}  // namespace weft::comm
