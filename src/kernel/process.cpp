#include "kernel/process.h"

#include <malloc.h>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "kernel/blas.h"

#if defined(__x86_64__)
extern "C" int mkl_serv_cbwr_set(int setting);
#endif

namespace weft::kernel {
namespace {

// MKL_CBWR_AVX2 and MKL_CBWR_AVX512, with MKL_CBWR_STRICT, of mkl_service.h.
bool make_products_reproducible() {
#if defined(__x86_64__)
  constexpr int kStrict = 0x10000;
  constexpr int kAvx2 = 10;
  constexpr int kAvx512 = 12;
  return mkl_serv_cbwr_set((__builtin_cpu_supports("avx512f") ? kAvx512 : kAvx2) | kStrict) == 0;
#else
  return false;
#endif
}

}  // namespace

bool start_process(const ProcessSettings& settings) {
  if (settings.reproducible) {
    static const bool library = make_products_reproducible() && slices_equal_products();  // it can be chosen once
    use_plain_products(!library);
  }
  // By default glibc returns every large block to the system and faults it in again in the next step.
  constexpr int kKept = 1 << 30;
  const bool kept = mallopt(M_MMAP_THRESHOLD, kKept) == 1 && mallopt(M_TRIM_THRESHOLD, kKept) == 1;
  at::set_num_threads(settings.threads);
  return kept;
}

}  // namespace weft::kernel
