// What ranks must know of each other before they start: whether all were given the same run, and who shares a machine.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "comm/communicator.h"

namespace weft::train {

// Of a text that every rank must have alike, called `what` ("run"): InputError on each rank whose text is another than
// rank 0's, naming the first line that differs; rank 0 and those that agree with it get one that names the ranks which
// do not. Every rank of the group calls it.
void check_same(std::string_view what, const std::string& text, comm::Communicator& world);

// How many ranks of the group share this one's machine, itself included. Every rank calls it.
[[nodiscard]] int64_t ranks_on_this_machine(comm::Communicator& world);

}  // namespace weft::train
