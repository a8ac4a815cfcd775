// The options of `weft train` that stand for keys of the run file.
#pragma once

#include <string>
#include <vector>

#include "app/commands.h"

namespace weft::app {

// What --set says, then what --steps, --seed and --out stand for, as load_run() takes it: "train.steps=100".
[[nodiscard]] std::vector<std::string> assignments(const Invocation& train);

}  // namespace weft::app
