#include "kernel/loops/level.h"

namespace weft::kernel::WEFT_LEVEL {
namespace {

void product_panel(const float* a, int64_t rows, int64_t depth, const float* b, float* out) {
  for (int64_t row = 0; row < rows; ++row) {
    float sums[kPanelColumns] = {};
    for (int64_t i = 0; i < depth; ++i) {
      const float factor = a[row * depth + i];
#pragma omp simd
      for (int64_t column = 0; column < kPanelColumns; ++column) sums[column] += factor * b[i * kPanelColumns + column];
    }
    for (int64_t column = 0; column < kPanelColumns; ++column) out[row * kPanelColumns + column] = sums[column];
  }
}

}  // namespace

void fill_products(Loops& table) { table.product_panel = product_panel; }

}  // namespace weft::kernel::WEFT_LEVEL
