#include "kernel/blas.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <vector>

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

namespace {

bool plain_products = false;

float number(float x) { return x; }
float number(BFloat16 x) {
  const uint32_t bits = static_cast<uint32_t>(x.bits) << 16;
  float result = 0;
  std::memcpy(&result, &bits, sizeof result);
  return result;
}

// Copies rows x columns of a matrix from `row` and `column` on, as stored or transposed.
template <typename Element>
void copy_block(const BlasMatrix<Element>& matrix, int64_t row, int64_t column, int64_t rows, int64_t columns,
                float* to, int64_t to_stride) {
  if (matrix.transposed) {
    for (int64_t j = 0; j < columns; ++j) {
      const Element* from = matrix.data + (column + j) * matrix.stride + row;
      for (int64_t i = 0; i < rows; ++i) to[i * to_stride + j] = number(from[i]);
    }
    return;
  }
  for (int64_t i = 0; i < rows; ++i) {
    const Element* from = matrix.data + (row + i) * matrix.stride + column;
    for (int64_t j = 0; j < columns; ++j) to[i * to_stride + j] = number(from[j]);
  }
}

// Panels of b as contiguous fp32, filled up with zeros, so that every column is computed by the same code.
template <typename Element>
void multiply_plainly(int64_t m, int64_t n, int64_t k, float alpha, BlasMatrix<Element> a, BlasMatrix<Element> b,
                      float beta, float* c, int64_t c_stride) {
  std::vector<float> rows(static_cast<size_t>(m * k)), panel(static_cast<size_t>(k * kPanelColumns));
  std::vector<float> product(static_cast<size_t>(m * kPanelColumns));
  copy_block(a, 0, 0, m, k, rows.data(), k);
  for (int64_t first = 0; first < n; first += kPanelColumns) {
    const int64_t columns = std::min(kPanelColumns, n - first);
    copy_block(b, 0, first, k, columns, panel.data(), kPanelColumns);
    loops().product_panel(rows.data(), m, k, panel.data(), product.data());
    for (int64_t row = 0; row < m; ++row) {
      const float* from = product.data() + row * kPanelColumns;
      float* out = c + row * c_stride + first;
      for (int64_t column = 0; column < columns; ++column) {
        out[column] = beta == 0 ? alpha * from[column] : beta * out[column] + alpha * from[column];
      }
    }
  }
}

#if defined(__x86_64__)

constexpr bool kHasLibrary = true;

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

void call_library(int64_t m, int64_t n, int64_t k, float alpha, BlasMatrix<float> a, BlasMatrix<float> b, float beta,
                  float* c, int64_t c_stride) {
  call(sgemm_, m, n, k, alpha, a, b, beta, c, c_stride);
}

void call_library(int64_t m, int64_t n, int64_t k, float alpha, BlasMatrix<BFloat16> a, BlasMatrix<BFloat16> b,
                  float beta, float* c, int64_t c_stride) {
  const auto gemm = [](const char* transpose_a, const char* transpose_b, const int* rows, const int* columns,
                       const int* depth, const float* factor, const BFloat16* first, const int* lda,
                       const BFloat16* second, const int* ldb, const float* old_factor, float* out, const int* ldc) {
    gemm_bf16bf16f32_(transpose_a, transpose_b, rows, columns, depth, factor, &first->bits, lda, &second->bits, ldb,
                      old_factor, out, ldc);
  };
  call(gemm, m, n, k, alpha, a, b, beta, c, c_stride);
}

#else

constexpr bool kHasLibrary = false;

template <typename Element>
void call_library(int64_t, int64_t, int64_t, float, BlasMatrix<Element>, BlasMatrix<Element>, float, float*, int64_t) {
  WEFT_CHECK(kHasLibrary);
}

#endif

template <typename Element>
void multiply_either(int64_t m, int64_t n, int64_t k, float alpha, BlasMatrix<Element> a, BlasMatrix<Element> b,
                     float beta, float* c, int64_t c_stride) {
  if (plain_products) return multiply_plainly(m, n, k, alpha, a, b, beta, c, c_stride);
  call_library(m, n, k, alpha, a, b, beta, c, c_stride);
}

// Two factors [m, k] and [k, n], as the forward and the weight gradient of a linear layer store them, and rows
// [first_row, m) and columns [first_column, n) of their product against the whole.
bool slice_equals_product(int64_t m, int64_t n, int64_t k, int64_t first_row, int64_t first_column) {
  std::vector<float> a(static_cast<size_t>(m * k)), b(static_cast<size_t>(k * n));
  uint32_t state = 1;
  for (std::vector<float>* factor : {&a, &b}) {
    for (float& each : *factor) {
      state = state * 1664525 + 1013904223;  // Numerical Recipes' generator: any numbers do
      each = static_cast<float>(state >> 8) * 0x1p-23F - 1;
    }
  }
  bool equal = true;
  for (const bool weight_gradient : {false, true}) {
    const auto left = [&](int64_t row) {
      return weight_gradient ? BlasMatrix<float>{a.data() + row, m, true} : BlasMatrix<float>{a.data() + row * k, k};
    };
    const auto right = [&](int64_t column) {
      return weight_gradient ? BlasMatrix<float>{b.data() + column, n}
                             : BlasMatrix<float>{b.data() + column * k, k, true};
    };
    std::vector<float> whole(static_cast<size_t>(m * n)), slice(whole.size());
    multiply(m, n, k, 1, left(0), right(0), 0, whole.data(), n);
    multiply(m - first_row, n - first_column, k, 1, left(first_row), right(first_column), 0,
             slice.data() + first_row * n + first_column, n);
    for (int64_t row = first_row; row < m; ++row) {
      const auto place = static_cast<size_t>(row * n + first_column);
      equal = equal && std::memcmp(&whole[place], &slice[place], sizeof(float) * (n - first_column)) == 0;
    }
  }
  return equal;
}

}  // namespace

bool has_blas() { return kHasLibrary || plain_products; }

void use_plain_products(bool plain) { plain_products = plain; }

bool slices_equal_products() {
  return slice_equals_product(96, 65, 130, 80, 0) && slice_equals_product(96, 65, 1000, 0, 33) &&
         slice_equals_product(131, 384, 70, 65, 200);
}

void multiply(int64_t m, int64_t n, int64_t k, float alpha, BlasMatrix<float> a, BlasMatrix<float> b, float beta,
              float* c, int64_t c_stride) {
  multiply_either(m, n, k, alpha, a, b, beta, c, c_stride);
}

void multiply(int64_t m, int64_t n, int64_t k, float alpha, BlasMatrix<BFloat16> a, BlasMatrix<BFloat16> b, float beta,
              float* c, int64_t c_stride) {
  multiply_either(m, n, k, alpha, a, b, beta, c, c_stride);
}

}  // namespace weft::kernel
