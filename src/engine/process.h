// What holds for the whole process is set here, once, at the start, and nowhere else.
#pragma once

#include <atomic>

namespace weft::engine {

// Before anything else.
void start_process();

// Processor threads for tensors: `threads`, or all usable cores for 0. `reproducible`: products whose bits do not depend
// on how they are cut. Call it before the first tensor operation.
void set_threads(int threads, bool reproducible = false);

// The signal that asked the process to stop, 0 until then. After watch_stop_signals, the first SIGINT or SIGTERM sets
// it and the second ends the process at once.
[[nodiscard]] const std::atomic<int>& stop_signal();
void watch_stop_signals();

}  // namespace weft::engine
