#include "kernel/loops/level.h"
#include "kernel/loops/vector_math.h"

namespace weft::kernel::WEFT_LEVEL {
namespace {

double logarithm(double x) { return __builtin_log(x); }

// The sum of exponentials is taken in blocks, so that a vocabulary of 100,000 loses no digit of fp32.
template <typename Element>
double cross_entropy(const float* logits, int64_t width, int64_t target, float scale, Element* gradient) {
  if (target < 0) {
    if (gradient != nullptr) {
      for (int64_t i = 0; i < width; ++i) store(0.0f, gradient[i]);
    }
    return 0;
  }
  float maximum = logits[0];
#pragma omp simd reduction(max : maximum)
  for (int64_t i = 1; i < width; ++i) maximum = logits[i] > maximum ? logits[i] : maximum;
  const double target_logit = static_cast<double>(logits[target]);
  constexpr int64_t kBlock = 1024;
  double sum = 0;
  for (int64_t start = 0; start < width; start += kBlock) {
    const int64_t end = start + kBlock < width ? start + kBlock : width;
    float block = 0;
#pragma omp simd reduction(+ : block)
    for (int64_t i = start; i < end; ++i) block += exponential(logits[i] - maximum);
    sum += static_cast<double>(block);
  }
  const double logsumexp = static_cast<double>(maximum) + logarithm(sum);
  if (gradient != nullptr) {
    const double target_probability = __builtin_exp(target_logit - logsumexp);
    const float factor = scale / static_cast<float>(sum);
    // The gradient may overlay the logits from its first byte on: going forward, block by block, it never overtakes
    // them.
    for (int64_t start = 0; start < width; start += kBlock) {
      const int64_t count = start + kBlock < width ? kBlock : width - start;
      float buffer[kBlock];
#pragma omp simd
      for (int64_t i = 0; i < count; ++i) buffer[i] = exponential(logits[start + i] - maximum) * factor;
#pragma omp simd
      for (int64_t i = 0; i < count; ++i) store(buffer[i], gradient[start + i]);
    }
    store(static_cast<float>((target_probability - 1.0) * static_cast<double>(scale)), gradient[target]);
  }
  return logsumexp - target_logit;
}

}  // namespace

void fill_losses(Loops& table) {
  table.float32.cross_entropy = cross_entropy<float>;
  table.bfloat16.cross_entropy = cross_entropy<BFloat16>;
}

}  // namespace weft::kernel::WEFT_LEVEL
