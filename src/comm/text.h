// Texts between ranks.
#pragma once

#include <string>

#include "comm/communicator.h"

namespace weft::comm {

// The root's text, on every member.
[[nodiscard]] std::string broadcast_text(std::string text, int root, Communicator& group, std::string_view what);

}  // namespace weft::comm
