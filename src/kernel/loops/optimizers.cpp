#include "kernel/loops/level.h"
#include "kernel/loops/vector_math.h"

namespace weft::kernel::WEFT_LEVEL {
namespace {

// AdamW with decoupled decay (arXiv 1711.05101, algorithm 2) in the order of operations of torch.optim.AdamW.
void adamw(AdamWStep step, int64_t count, float* parameter, const float* gradient, float* average, float* square) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    const float g = gradient[i] * step.gradient_scale;
    const float m = average[i] + (g - average[i]) * step.average_weight;
    const float v = square[i] * step.square_decay + step.square_weight * g * g;
    average[i] = m;
    square[i] = v;
    const float denominator = __builtin_sqrtf(v) / step.square_correction + step.epsilon;
    parameter[i] = parameter[i] * step.parameter_decay - step.step_size * m / denominator;
  }
}

double sum_of_squares(const float* x, int64_t count) {
  double total = 0;
#pragma omp simd reduction(+ : total)
  for (int64_t i = 0; i < count; ++i) total += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  return total;
}

}  // namespace

void fill_optimizers(Loops& table) {
  table.adamw = adamw;
  table.sum_of_squares = sum_of_squares;
}

}  // namespace weft::kernel::WEFT_LEVEL
