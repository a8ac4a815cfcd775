#include "kernel/loops/level.h"
#include "kernel/loops/vector_math.h"

namespace weft::kernel::WEFT_LEVEL {
namespace {

// AdamW with decoupled decay (arXiv 1711.05101, algorithm 2) in the order of operations of torch.optim.AdamW.
void adamw(AdamWStep step, int64_t count, float* parameter, const float* gradient, float* average, float* square) {
  const float decay = 1.0f - step.learning_rate * step.weight_decay;
  const float step_size = step.learning_rate / step.bias_correction1;
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    const float g = gradient[i] * step.gradient_scale;
    const float m = average[i] + (g - average[i]) * (1.0f - step.beta1);
    const float v = square[i] * step.beta2 + (1.0f - step.beta2) * g * g;
    const float denominator = __builtin_sqrtf(v) / step.bias_correction2_root + step.epsilon;
    average[i] = m;
    square[i] = v;
    parameter[i] = parameter[i] * decay - step_size * m / denominator;
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
