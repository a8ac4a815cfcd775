#include "kernel/blas.h"

#include <limits>

#include "base/check.h"

// MKL is inside libtorch_cpu; these are its Fortran symbols (column-major, 32-bit integers).
#if defined(__x86_64__)
extern "C" {
void sgemm_(const char* transpose_a, const char* transpose_b, const int* m, const int* n, const int* k,
            const float* alpha, const float* a, const int* lda, const float* b, const int* ldb, const float* beta,
            float* c, const int* ldc);
void gemm_bf16bf16f32_(const char* transpose_a, const char* transpose_b, const int* m, const int* n, const int* k,
                       const float* alpha, const uint16_t* a, const int* lda, const uint16_t* b, const int* ldb,
                       const float* beta, float* c, const int* ldc);
}
#endif

namespace weft::kernel {

bool product_fits(int64_t m, int64_t n, int64_t k) {
  constexpr int64_t kLimit = std::numeric_limits<int>::max();
  return m <= kLimit && n <= kLimit && k <= kLimit;
}

#if defined(__x86_64__)

bool has_blas() { return true; }

namespace {

// The row-major product is the column-major product of the transposes: B^T A^T.
template <typename Element, typename Gemm>
void call(Gemm gemm, int64_t m, int64_t n, int64_t k, float alpha, BlasMatrix<Element> a, BlasMatrix<Element> b,
          float beta, float* c, int64_t c_stride) {
  WEFT_CHECK(product_fits(m, n, k) && product_fits(a.stride, b.stride, c_stride));
  if (m == 0 || n == 0) return;
  const int rows = static_cast<int>(n), columns = static_cast<int>(m), depth = static_cast<int>(k);
  const int lda = static_cast<int>(b.stride), ldb = static_cast<int>(a.stride), ldc = static_cast<int>(c_stride);
  gemm(b.transposed ? "T" : "N", a.transposed ? "T" : "N", &rows, &columns, &depth, &alpha, b.data, &lda, a.data, &ldb,
       &beta, c, &ldc);
}

}  // namespace

void multiply(int64_t m, int64_t n, int64_t k, float alpha, BlasMatrix<float> a, BlasMatrix<float> b, float beta,
              float* c, int64_t c_stride) {
  call(sgemm_, m, n, k, alpha, a, b, beta, c, c_stride);
}

void multiply(int64_t m, int64_t n, int64_t k, float alpha, BlasMatrix<BFloat16> a, BlasMatrix<BFloat16> b, float beta,
              float* c, int64_t c_stride) {
  const auto gemm = [](const char* transpose_a, const char* transpose_b, const int* rows, const int* columns,
                       const int* depth, const float* factor, const BFloat16* first, const int* lda,
                       const BFloat16* second, const int* ldb, const float* old_factor, float* out, const int* ldc) {
    gemm_bf16bf16f32_(transpose_a, transpose_b, rows, columns, depth, factor, &first->bits, lda, &second->bits, ldb,
                      old_factor, out, ldc);
  };
  call(gemm, m, n, k, alpha, a, b, beta, c, c_stride);
}

#else

bool has_blas() { return false; }

void multiply(int64_t, int64_t, int64_t, float, BlasMatrix<float>, BlasMatrix<float>, float, float*, int64_t) {
  WEFT_CHECK(has_blas());
}
void multiply(int64_t, int64_t, int64_t, float, BlasMatrix<BFloat16>, BlasMatrix<BFloat16>, float, float*, int64_t) {
  WEFT_CHECK(has_blas());
}

#endif

}  // namespace weft::kernel
