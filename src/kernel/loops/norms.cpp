#include "kernel/loops/level.h"
#include "kernel/loops/vector_math.h"

namespace weft::kernel::WEFT_LEVEL {
namespace {

template <typename Element>
Element* row(Element* data, const RowLayout& rows, int64_t outer, int64_t inner) {
  return data + outer * rows.stride + inner * rows.width;
}

template <typename Element>
void rms_norm_forward(const Element* x, RowLayout x_rows, const float* weight, float epsilon, Element* y,
                      RowLayout y_rows, float* inverse_rms) {
  const int64_t width = x_rows.width;
  for (int64_t outer = 0; outer < x_rows.outer; ++outer) {
    for (int64_t inner = 0; inner < x_rows.inner; ++inner) {
      const Element* from = row(x, x_rows, outer, inner);
      Element* to = row(y, y_rows, outer, inner);
      float sum = 0;
#pragma omp simd reduction(+ : sum)
      for (int64_t i = 0; i < width; ++i) sum += load(from[i]) * load(from[i]);
      const float inverse = 1.0f / __builtin_sqrtf(sum / static_cast<float>(width) + epsilon);
      if (inverse_rms != nullptr) *inverse_rms++ = inverse;
#pragma omp simd
      for (int64_t i = 0; i < width; ++i) store(load(from[i]) * inverse * weight[i], to[i]);
    }
  }
}

// With n = x * inverse: dx = inverse * (dy w - n * mean(dy w n)), dweight += dy n.
template <typename Element>
void rms_norm_backward(const Element* dy, RowLayout dy_rows, const Element* x, RowLayout x_rows, const float* weight,
                       const float* inverse_rms, Element* dx, RowLayout dx_rows, float* dweight) {
  const int64_t width = x_rows.width;
  for (int64_t outer = 0; outer < x_rows.outer; ++outer) {
    for (int64_t inner = 0; inner < x_rows.inner; ++inner) {
      const Element* upper = row(dy, dy_rows, outer, inner);
      const Element* from = row(x, x_rows, outer, inner);
      Element* to = row(dx, dx_rows, outer, inner);
      const float inverse = *inverse_rms++;
      float dot = 0;
#pragma omp simd reduction(+ : dot)
      for (int64_t i = 0; i < width; ++i) dot += load(upper[i]) * weight[i] * load(from[i]);
      const float shared = dot * inverse * inverse * inverse / static_cast<float>(width);
      if (dweight != nullptr) {
#pragma omp simd
        for (int64_t i = 0; i < width; ++i) dweight[i] += load(upper[i]) * (load(from[i]) * inverse);
      }
#pragma omp simd
      for (int64_t i = 0; i < width; ++i) {
        store(load(upper[i]) * weight[i] * inverse - load(from[i]) * shared, to[i]);
      }
    }
  }
}

template <typename Element>
void layer_norm_forward(const Element* x, RowLayout x_rows, const float* weight, const float* bias, float epsilon,
                        Element* y, RowLayout y_rows, float* statistics) {
  const int64_t width = x_rows.width;
  for (int64_t outer = 0; outer < x_rows.outer; ++outer) {
    for (int64_t inner = 0; inner < x_rows.inner; ++inner) {
      const Element* from = row(x, x_rows, outer, inner);
      Element* to = row(y, y_rows, outer, inner);
      float sum = 0;
#pragma omp simd reduction(+ : sum)
      for (int64_t i = 0; i < width; ++i) sum += load(from[i]);
      const float mean = sum / static_cast<float>(width);
      float squares = 0;
#pragma omp simd reduction(+ : squares)
      for (int64_t i = 0; i < width; ++i) squares += (load(from[i]) - mean) * (load(from[i]) - mean);
      const float inverse = 1.0f / __builtin_sqrtf(squares / static_cast<float>(width) + epsilon);
      if (statistics != nullptr) {
        *statistics++ = mean;
        *statistics++ = inverse;
      }
      if (bias != nullptr) {
#pragma omp simd
        for (int64_t i = 0; i < width; ++i) store((load(from[i]) - mean) * inverse * weight[i] + bias[i], to[i]);
      } else {
#pragma omp simd
        for (int64_t i = 0; i < width; ++i) store((load(from[i]) - mean) * inverse * weight[i], to[i]);
      }
    }
  }
}

// With n = (x - mean) * inverse: dx = inverse * (dy w - mean(dy w) - n * mean(dy w n)).
template <typename Element>
void layer_norm_backward(const Element* dy, RowLayout dy_rows, const Element* x, RowLayout x_rows, const float* weight,
                         const float* statistics, Element* dx, RowLayout dx_rows, float* dweight, float* dbias) {
  const int64_t width = x_rows.width;
  for (int64_t outer = 0; outer < x_rows.outer; ++outer) {
    for (int64_t inner = 0; inner < x_rows.inner; ++inner) {
      const Element* upper = row(dy, dy_rows, outer, inner);
      const Element* from = row(x, x_rows, outer, inner);
      Element* to = row(dx, dx_rows, outer, inner);
      const float mean = *statistics++;
      const float inverse = *statistics++;
      float sum = 0;
      float dot = 0;
#pragma omp simd reduction(+ : sum, dot)
      for (int64_t i = 0; i < width; ++i) {
        const float weighted = load(upper[i]) * weight[i];
        sum += weighted;
        dot += weighted * (load(from[i]) - mean);
      }
      const float shared = sum / static_cast<float>(width);
      const float slope = dot * inverse * inverse / static_cast<float>(width);
      if (dbias != nullptr) {
#pragma omp simd
        for (int64_t i = 0; i < width; ++i) dbias[i] += load(upper[i]);
      }
      if (dweight != nullptr) {
#pragma omp simd
        for (int64_t i = 0; i < width; ++i) dweight[i] += load(upper[i]) * ((load(from[i]) - mean) * inverse);
      }
#pragma omp simd
      for (int64_t i = 0; i < width; ++i) {
        store((load(upper[i]) * weight[i] - shared - (load(from[i]) - mean) * slope) * inverse, to[i]);
      }
    }
  }
}

template <typename Element>
void fill(ElementLoops<Element>& table) {
  table.rms_norm_forward = rms_norm_forward<Element>;
  table.rms_norm_backward = rms_norm_backward<Element>;
  table.layer_norm_forward = layer_norm_forward<Element>;
  table.layer_norm_backward = layer_norm_backward<Element>;
}

}  // namespace

void fill_norms(Loops& table) {
  fill(table.float32);
  fill(table.bfloat16);
}

}  // namespace weft::kernel::WEFT_LEVEL
