#include "kernel/loops/level.h"
#include "kernel/loops/vector_math.h"

namespace weft::kernel::WEFT_LEVEL {
namespace {

void softmax_row(float* scores, int64_t count, float scale, float* maximum, float* sum) {
  float highest = scores[0];
#pragma omp simd reduction(max : highest)
  for (int64_t i = 0; i < count; ++i) highest = scores[i] > highest ? scores[i] : highest;
  const float shift = highest * scale;
  float total = 0;
#pragma omp simd reduction(+ : total)
  for (int64_t i = 0; i < count; ++i) {
    const float e = exponential(scores[i] * scale - shift);
    scores[i] = e;
    total += e;
  }
  *maximum = shift;
  *sum = total;
}

void probability_row(float* scores, int64_t count, float scale, float logsumexp) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) scores[i] = exponential(scores[i] * scale - logsumexp);
}

void score_gradient_row(const float* probabilities, float* dprobabilities, int64_t count, float delta, float scale) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) dprobabilities[i] = probabilities[i] * (dprobabilities[i] - delta) * scale;
}

float dot(const float* a, const float* b, int64_t count) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < count; ++i) sum += a[i] * b[i];
  return sum;
}

}  // namespace

void fill_attention(Loops& table) {
  table.softmax_row = softmax_row;
  table.probability_row = probability_row;
  table.score_gradient_row = score_gradient_row;
  table.dot = dot;
}

}  // namespace weft::kernel::WEFT_LEVEL
