// Texts between ranks.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "comm/communicator.h"

namespace weft::comm {

// The root's text, on every member.
[[nodiscard]] std::string broadcast_text(std::string text, int root, Communicator& group, std::string_view what);
// Every member's text, by rank, on every member.
[[nodiscard]] std::vector<std::string> gather_texts(const std::string& text, Communicator& group,
                                                    std::string_view what);

}  // namespace weft::comm
