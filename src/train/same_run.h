// Whether all ranks were given the same run.
#pragma once

#include <string>

#include "comm/communicator.h"

namespace weft::train {

// InputError on each rank whose configuration is another than rank 0's, naming the first line that differs; rank 0 and
// those that agree with it get one that names the ranks which do not. Every rank of the group calls it.
void check_same_run(const std::string& configuration, comm::Communicator& world);

}  // namespace weft::train
