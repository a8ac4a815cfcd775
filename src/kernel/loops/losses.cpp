#include "kernel/loops/level.h"
#include "kernel/loops/vector_math.h"

namespace weft::kernel::WEFT_LEVEL {
namespace {

double logarithm(double x) { return __builtin_log(x); }

constexpr int64_t kBlock = 1024;

float greatest_of(const float* logits, int64_t width) {
  float maximum = logits[0];
#pragma omp simd reduction(max : maximum)
  for (int64_t i = 1; i < width; ++i) maximum = logits[i] > maximum ? logits[i] : maximum;
  return maximum;
}

// The sum of exponentials is taken in blocks, so that a vocabulary of 100,000 loses no digit of fp32.
double sum_of_exponentials(const float* logits, int64_t width, float maximum) {
  double sum = 0;
  for (int64_t start = 0; start < width; start += kBlock) {
    const int64_t end = start + kBlock < width ? start + kBlock : width;
    float block = 0;
#pragma omp simd reduction(+ : block)
    for (int64_t i = start; i < end; ++i) block += exponential(logits[i] - maximum);
    sum += static_cast<double>(block);
  }
  return sum;
}

// The gradient may overlay the logits from its first byte on: going forward, block by block, it never overtakes them.
template <typename Element>
void write_probabilities(const float* logits, int64_t width, float maximum, float factor, Element* gradient) {
  for (int64_t start = 0; start < width; start += kBlock) {
    const int64_t count = start + kBlock < width ? kBlock : width - start;
    float buffer[kBlock];
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) buffer[i] = exponential(logits[start + i] - maximum) * factor;
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) store(buffer[i], gradient[start + i]);
  }
}

template <typename Element>
void clear(int64_t width, Element* gradient) {
  for (int64_t i = 0; i < width; ++i) store(0.0f, gradient[i]);
}

template <typename Element>
double cross_entropy(const float* logits, int64_t width, int64_t target, float scale, Element* gradient) {
  if (target < 0) {
    if (gradient != nullptr) clear(width, gradient);
    return 0;
  }
  const float maximum = greatest_of(logits, width);
  const double target_logit = static_cast<double>(logits[target]);
  const double sum = sum_of_exponentials(logits, width, maximum);
  const double logsumexp = static_cast<double>(maximum) + logarithm(sum);
  if (gradient != nullptr) {
    const double target_probability = __builtin_exp(target_logit - logsumexp);
    write_probabilities(logits, width, maximum, scale / static_cast<float>(sum), gradient);
    store(static_cast<float>((target_probability - 1.0) * static_cast<double>(scale)), gradient[target]);
  }
  return logsumexp - target_logit;
}

void row_statistics(const float* logits, int64_t width, float* greatest, double* sum) {
  *greatest = greatest_of(logits, width);
  *sum = sum_of_exponentials(logits, width, *greatest);
}

template <typename Element>
void softmax_gradient(const float* logits, int64_t width, int64_t target, float greatest, float factor,
                      float target_gradient, Element* gradient) {
  if (factor == 0.0f) {
    clear(width, gradient);
    return;
  }
  write_probabilities(logits, width, greatest, factor, gradient);
  if (target >= 0) store(target_gradient, gradient[target]);
}

}  // namespace

void fill_losses(Loops& table) {
  table.float32.cross_entropy = cross_entropy<float>;
  table.bfloat16.cross_entropy = cross_entropy<BFloat16>;
  table.row_statistics = row_statistics;
  table.float32.softmax_gradient = softmax_gradient<float>;
  table.bfloat16.softmax_gradient = softmax_gradient<BFloat16>;
}

}  // namespace weft::kernel::WEFT_LEVEL
