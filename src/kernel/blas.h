// The matrix products of the library inside LibTorch, row-major on raw pointers. C [m, n] = alpha op(A) op(B) + beta C,
// where op(A) is [m, k] and op(B) [k, n]; a stride is the distance of two rows as stored.
#pragma once

#include <cstdint>

#include "kernel/loops/loops.h"

namespace weft::kernel {

template <typename Element>
struct BlasMatrix {
  const Element* data;
  int64_t stride;
  bool transposed = false;
};

// Sizes and strides must be below 2^31; `product_fits` says whether they are.
bool product_fits(int64_t m, int64_t n, int64_t k);

void multiply(int64_t m, int64_t n, int64_t k, float alpha, BlasMatrix<float> a, BlasMatrix<float> b, float beta,
              float* c, int64_t c_stride);
void multiply(int64_t m, int64_t n, int64_t k, float alpha, BlasMatrix<BFloat16> a, BlasMatrix<BFloat16> b, float beta,
              float* c, int64_t c_stride);

// Whether this build has these products: LibTorch's wheels for x86-64 hold them.
bool has_blas();

}  // namespace weft::kernel
