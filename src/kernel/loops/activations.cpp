#include "kernel/loops/level.h"
#include "kernel/loops/vector_math.h"

namespace weft::kernel::WEFT_LEVEL {
namespace {

template <typename Element>
void rotate(Element* data, RowLayout rows, const float* cosine, const float* sine, const int64_t* positions,
            float direction) {
  const int64_t half = rows.width / 2;
  for (int64_t outer = 0; outer < rows.outer; ++outer) {
    const float* cosines = cosine + positions[outer] * half;
    const float* sines = sine + positions[outer] * half;
    for (int64_t inner = 0; inner < rows.inner; ++inner) {
      Element* first = data + outer * rows.stride + inner * rows.width;
      Element* second = first + half;
#pragma omp simd
      for (int64_t i = 0; i < half; ++i) {
        const float a = load(first[i]);
        const float b = load(second[i]);
        const float s = sines[i] * direction;
        store(a * cosines[i] - b * s, first[i]);
        store(b * cosines[i] + a * s, second[i]);
      }
    }
  }
}

template <typename Element>
void swiglu_forward(const Element* gate, const Element* up, int64_t rows, int64_t width, int64_t stride, Element* out) {
  for (int64_t r = 0; r < rows; ++r) {
    const Element* gates = gate + r * stride;
    const Element* ups = up + r * stride;
    Element* to = out + r * width;
#pragma omp simd
    for (int64_t i = 0; i < width; ++i) {
      const float g = load(gates[i]);
      store(g * sigmoid(g) * load(ups[i]), to[i]);
    }
  }
}

// silu'(g) = s + g s (1 - s) with s = sigmoid(g).
template <typename Element>
void swiglu_backward(Element* dout, Element* gate, Element* up, int64_t rows, int64_t width, int64_t stride) {
  for (int64_t r = 0; r < rows; ++r) {
    Element* gates = gate + r * stride;
    Element* ups = up + r * stride;
    Element* upper = dout + r * width;
#pragma omp simd
    for (int64_t i = 0; i < width; ++i) {
      const float g = load(gates[i]);
      const float u = load(ups[i]);
      const float d = load(upper[i]);
      const float s = sigmoid(g);
      const float silu = g * s;
      store(silu * u, upper[i]);
      store(d * u * (s + silu * (1.0f - s)), gates[i]);
      store(d * silu, ups[i]);
    }
  }
}

// A loop a variant: a choice inside the loop would keep it from becoming vector code.
template <typename Element, ValueAndDerivative (*gelu)(float)>
void gelu_forward_loop(const Element* x, int64_t count, Element* out) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) store(gelu(load(x[i])).value, out[i]);
}

template <typename Element, ValueAndDerivative (*gelu)(float)>
void gelu_backward_loop(Element* dout, Element* x, int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    const float upper = load(dout[i]);
    const ValueAndDerivative result = gelu(load(x[i]));
    store(result.value, dout[i]);
    store(upper * result.derivative, x[i]);
  }
}

template <typename Element>
void gelu_forward(const Element* x, int64_t count, bool tanh, Element* out) {
  tanh ? gelu_forward_loop<Element, gelu_tanh>(x, count, out) : gelu_forward_loop<Element, gelu_erf>(x, count, out);
}

template <typename Element>
void gelu_backward(Element* dout, Element* x, int64_t count, bool tanh) {
  tanh ? gelu_backward_loop<Element, gelu_tanh>(dout, x, count) : gelu_backward_loop<Element, gelu_erf>(dout, x, count);
}

template <typename Element>
void fill(ElementLoops<Element>& table) {
  table.rotate = rotate<Element>;
  table.swiglu_forward = swiglu_forward<Element>;
  table.swiglu_backward = swiglu_backward<Element>;
  table.gelu_forward = gelu_forward<Element>;
  table.gelu_backward = gelu_backward<Element>;
}

}  // namespace

void fill_activations(Loops& table) {
  fill(table.float32);
  fill(table.bfloat16);
}

}  // namespace weft::kernel::WEFT_LEVEL
