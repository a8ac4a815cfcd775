// Whether a run fits into memory, before it starts.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/description.h"
#include "run/run_node.h"

namespace weft::train {

// An empty text if the run fits into `available` bytes; else what it needs, what there is, and what would fit.
[[nodiscard]] std::string memory_shortage(const run::RunNode& run, const model::ModelDescription& model,
                                          const std::vector<bool>& frozen, uint64_t available);

}  // namespace weft::train
