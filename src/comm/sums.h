// Reductions over the members' numbers, each element in the order of ranks.
#pragma once

#include <cstdint>
#include <span>

#include "comm/communicator.h"

namespace weft::comm {

// Combines `count` elements at each of the sources, in their order, and writes the result to every target. A target may
// be one of the sources, at the same place. bf16 is added in fp32 and rounded once, to nearest even; integers wrap; the
// maximum of a NaN and anything is NaN. Types: as Communicator says.
void reduce(Reduction reduction, mesh::ElementType type, std::span<const void* const> sources,
            std::span<void* const> targets, int64_t count);

}  // namespace weft::comm
