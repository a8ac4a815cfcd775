#include "kernel/parallel.h"

#include <ATen/Parallel.h>
#include <torch/csrc/stable/c/shim.h>

#include "base/check.h"

namespace weft::kernel::internal {

// LibTorch's own loop is a template that needs OpenMP at compile time; its exported form uses the pool inside LibTorch.
void parallel_ranges(int64_t count, int64_t grain, void (*call)(int64_t, int64_t, void*), void* body) {
  if (count <= grain || at::get_num_threads() == 1 || at::in_parallel_region()) {
    if (count > 0) call(0, count, body);
    return;
  }
  WEFT_CHECK(torch_parallel_for(0, count, grain, call, body) == 0);
}

}  // namespace weft::kernel::internal
