// What this process may use of the machine: an affinity mask, or a container's limits, may leave it less than there is.
#pragma once

#include <cstdint>
#include <filesystem>

namespace weft {

// Processor cores, at least 1.
[[nodiscard]] int usable_cores();

// Bytes that can be had without swapping: the kernel's estimate (MemAvailable), or what a control group leaves.
[[nodiscard]] uint64_t available_memory();
[[nodiscard]] uint64_t total_memory();

// The limits that the control groups (version 2) of this process set. `root` is where they are mounted, `group` the
// process's own below it ("/a/b"); a limit of a parent holds as well.
struct GroupLimits {
  double cores = 0;               // 0: no limit
  uint64_t memory = 0;            // bytes; 0: no limit
  uint64_t memory_available = 0;  // of the tightest limit: what is neither used nor can be dropped
};
[[nodiscard]] GroupLimits group_limits(const std::filesystem::path& root, const std::filesystem::path& group);

}  // namespace weft
