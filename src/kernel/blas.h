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

// Whether these products can be had: LibTorch's wheels for x86-64 hold the library; plain ones are always there.
bool has_blas();

// From then on products are plain loops of one order of additions whatever the place of an element, instead
// of the library's. Process-wide: process.h decides it before the first product.
void use_plain_products(bool plain);

// Whether slices of a few products of odd sizes, of their rows and of their columns, equal the products' slices bit by
// bit.
bool slices_equal_products();

}  // namespace weft::kernel
