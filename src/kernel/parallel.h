// Loops over ranges on the threads that the process was given (process.h), the same that products use.
#pragma once

#include <cstdint>

namespace weft::kernel {

namespace internal {
void parallel_ranges(int64_t count, int64_t grain, void (*call)(int64_t begin, int64_t end, void* body), void* body);
}

// Calls body(begin, end) for ranges that cover [0, count), at least `grain` long where it can be, at once on several
// threads. Where the ranges are cut depends on the number of threads, so results must not. The body must not throw.
template <typename Body>
void parallel_ranges(int64_t count, int64_t grain, Body body) {
  internal::parallel_ranges(
      count, grain, [](int64_t begin, int64_t end, void* data) { (*static_cast<Body*>(data))(begin, end); }, &body);
}

// Elements a thread should have at least: some ten microseconds of work, since waking and awaiting another thread costs
// that, and far more where the machine has other work.
constexpr int64_t kParallelElements = 1 << 17;

// The grain of a loop over rows of this many elements.
constexpr int64_t row_grain(int64_t width) {
  return width >= kParallelElements ? 1 : kParallelElements / (width + 1) + 1;
}

}  // namespace weft::kernel
