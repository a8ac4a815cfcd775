#include "kernel/loops/level.h"
#include "kernel/loops/vector_math.h"

namespace weft::kernel::WEFT_LEVEL {
namespace {

template <typename Element>
void add_scaled(const Element* x, const Element* branch, float factor, int64_t count, Element* out) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) store(load(x[i]) + factor * load(branch[i]), out[i]);
}

template <typename Element>
void scale(Element* x, float factor, int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) store(load(x[i]) * factor, x[i]);
}

// In groups of rows, so that long batches do not lose digits of fp32 in one running sum.
template <typename Element>
void column_sums(const Element* x, int64_t rows, int64_t width, int64_t stride, float* out) {
  constexpr int64_t kColumns = 64;
  constexpr int64_t kRows = 64;
  for (int64_t column = 0; column < width; column += kColumns) {
    const int64_t columns = width - column < kColumns ? width - column : kColumns;
    for (int64_t row = 0; row < rows; row += kRows) {
      const int64_t last = row + kRows < rows ? row + kRows : rows;
      float sums[kColumns] = {};
      for (int64_t r = row; r < last; ++r) {
        const Element* from = x + r * stride + column;
#pragma omp simd
        for (int64_t i = 0; i < columns; ++i) sums[i] += load(from[i]);
      }
#pragma omp simd
      for (int64_t i = 0; i < columns; ++i) out[column + i] += sums[i];
    }
  }
}

template <typename Element>
void to_float(const Element* x, RowLayout rows, float* out, int64_t out_stride) {
  for (int64_t outer = 0; outer < rows.outer; ++outer) {
    const Element* from = x + outer * rows.stride;
    float* to = out + outer * out_stride;
#pragma omp simd
    for (int64_t i = 0; i < rows.inner * rows.width; ++i) to[i] = load(from[i]);
  }
}

template <typename Element>
void from_float(const float* x, int64_t x_stride, Element* out, RowLayout rows) {
  for (int64_t outer = 0; outer < rows.outer; ++outer) {
    const float* from = x + outer * x_stride;
    Element* to = out + outer * rows.stride;
#pragma omp simd
    for (int64_t i = 0; i < rows.inner * rows.width; ++i) store(from[i], to[i]);
  }
}

template <typename Element>
void fill(ElementLoops<Element>& table) {
  table.add_scaled = add_scaled<Element>;
  table.scale = scale<Element>;
  table.column_sums = column_sums<Element>;
  table.to_float = to_float<Element>;
  table.from_float = from_float<Element>;
}

}  // namespace

void fill_elementwise(Loops& table) {
  fill(table.float32);
  fill(table.bfloat16);
}

}  // namespace weft::kernel::WEFT_LEVEL
