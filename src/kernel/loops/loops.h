// The inner loops of the CPU kernels: plain loops over raw pointers, compiled once for each level of x86-64 and chosen
// at run time. No tensor is known here. All arithmetic is fp32 whatever the element type, unless said otherwise; an
// element's result depends on its row alone, never on its place in the call.
#pragma once

#include <cstdint>

namespace weft::kernel {

// The bits of a bfloat16.
struct BFloat16 {
  uint16_t bits;
};

// Rows of `width` contiguous elements, `inner` of them next to each other at each of `outer` places `stride` elements
// apart: the heads of a query inside the product that also holds keys and values. A plain matrix has inner 1.
struct RowLayout {
  int64_t outer = 0;
  int64_t inner = 1;
  int64_t width = 0;
  int64_t stride = 0;
};

// The stream of random words of one key (base/philox.h).
struct WordStream {
  uint64_t seed = 0;
  uint64_t offset = 0;
};

// Keeps element g of a stream iff the low 24 bits of its word are below the threshold, and multiplies it then by
// `factor`.
struct DropoutMask {
  WordStream stream;
  uint32_t threshold = 0;
  float factor = 1;
};

// The numbers of one AdamW step, computed in double and then rounded.
struct AdamWStep {
  float gradient_scale;     // what clipping multiplies gradients by
  float average_weight;     // 1 - beta1
  float square_decay;       // beta2
  float square_weight;      // 1 - beta2
  float parameter_decay;    // 1 - rate * weight decay
  float step_size;          // rate / (1 - beta1^t)
  float square_correction;  // sqrt(1 - beta2^t)
  float epsilon;
};

// The loops over activations of one element type.
template <typename Element>
struct ElementLoops {
  // y = x / sqrt(mean(x^2) + epsilon) * weight; inverse_rms has one value a row, or is null.
  void (*rms_norm_forward)(const Element* x, RowLayout x_rows, const float* weight, float epsilon, Element* y,
                           RowLayout y_rows, float* inverse_rms);
  // dx may be dy. dweight (width) is added to, or null.
  void (*rms_norm_backward)(const Element* dy, RowLayout dy_rows, const Element* x, RowLayout x_rows,
                            const float* weight, const float* inverse_rms, Element* dx, RowLayout dx_rows,
                            float* dweight);
  // y = (x - mean) / sqrt(variance + epsilon) * weight + bias (bias may be null); statistics: mean, inverse deviation a
  // row.
  void (*layer_norm_forward)(const Element* x, RowLayout x_rows, const float* weight, const float* bias, float epsilon,
                             Element* y, RowLayout y_rows, float* statistics);
  void (*layer_norm_backward)(const Element* dy, RowLayout dy_rows, const Element* x, RowLayout x_rows,
                              const float* weight, const float* statistics, Element* dx, RowLayout dx_rows,
                              float* dweight, float* dbias);

  // Turns the pairs (i, i + width / 2) of each row by the angle of its place's position, in place. The tables are
  // [positions, width / 2]. direction -1 turns back.
  void (*rotate)(Element* data, RowLayout rows, const float* cosine, const float* sine, const int64_t* positions,
                 float direction);

  // out = silu(gate) * up. Rows of gate and up are `stride` apart.
  void (*swiglu_forward)(const Element* gate, const Element* up, int64_t rows, int64_t width, int64_t stride,
                         Element* out);
  // dout becomes the forward's output, gate and up become their gradients.
  void (*swiglu_backward)(Element* dout, Element* gate, Element* up, int64_t rows, int64_t width, int64_t stride);
  // out = gelu(x), by erf or by its approximation with tanh; out may be x.
  void (*gelu_forward)(const Element* x, int64_t count, bool tanh, Element* out);
  // dout becomes the forward's output, x becomes its gradient.
  void (*gelu_backward)(Element* dout, Element* x, int64_t count, bool tanh);

  // One row of cross-entropy: returns log(sum(exp(logits))) - logits[target]; writes (softmax - onehot) * scale to
  // gradient, which may start where logits do (null: not wanted). target -1: zeros and 0.
  double (*cross_entropy)(const float* logits, int64_t width, int64_t target, float scale, Element* gradient);

  // One row of a part of the columns: gradient = factor * exp(logit - greatest), but target_gradient at the target (-1:
  // it is elsewhere). A factor of 0 gives zeros. The gradient may start where logits do.
  void (*softmax_gradient)(const float* logits, int64_t width, int64_t target, float greatest, float factor,
                           float target_gradient, Element* gradient);

  // The elements are numbers first, first + 1, ... of the mask's stream.
  void (*dropout)(Element* x, int64_t count, DropoutMask mask, uint64_t first);
  // out = x + factor * branch
  void (*add_scaled)(const Element* x, const Element* branch, float factor, int64_t count, Element* out);
  void (*scale)(Element* x, float factor, int64_t count);
  // Column sums of a matrix are added to out.
  void (*column_sums)(const Element* x, int64_t rows, int64_t width, int64_t stride, float* out);
  // Rows between the element type and fp32.
  void (*to_float)(const Element* x, RowLayout x_rows, float* out, int64_t out_stride);
  void (*from_float)(const float* x, int64_t x_stride, Element* out, RowLayout out_rows);
};

// The columns of a panel of a plain product.
constexpr int64_t kPanelColumns = 32;

struct Loops {
  const char* level;
  ElementLoops<float> float32;
  ElementLoops<BFloat16> bfloat16;

  // Attention works on one row of scores (fp32), of which the first `count` are seen. Scores become exp(scale * (s -
  // max)); returns max * scale and the sum.
  void (*softmax_row)(float* scores, int64_t count, float scale, float* maximum, float* sum);
  // scores become probabilities exp(scale * s - logsumexp).
  void (*probability_row)(float* scores, int64_t count, float scale, float logsumexp);
  // dscores = probabilities * (dprobabilities - delta) * scale, written over dprobabilities.
  void (*score_gradient_row)(const float* probabilities, float* dprobabilities, int64_t count, float delta,
                             float scale);
  float (*dot)(const float* a, const float* b, int64_t count);

  // The greatest of a row of logits, and the sum of exp(logit - greatest).
  void (*row_statistics)(const float* logits, int64_t width, float* greatest, double* sum);

  // Words first to first + count - 1 of a stream, and the same as (word & 0xffffff) * 2^-24.
  void (*philox_words)(WordStream stream, uint64_t first, int64_t count, uint32_t* words);
  void (*philox_uniform)(WordStream stream, uint64_t first, int64_t count, float* out);
  // normals_of_words() of base/philox.h times `deviation`; `first` is even.
  void (*philox_normal)(WordStream stream, uint64_t first, int64_t count, float deviation, float* out);

  // out [rows, kPanelColumns] = a [rows, depth] b [depth, kPanelColumns], all contiguous; every sum over the depth runs
  // in one order.
  void (*product_panel)(const float* a, int64_t rows, int64_t depth, const float* b, float* out);

  void (*adamw)(AdamWStep step, int64_t count, float* parameter, const float* gradient, float* average, float* square);
  double (*sum_of_squares)(const float* x, int64_t count);  // fp64, in a fixed order
};

// The loops of the best level that this processor runs.
const Loops& loops();

// Every level that this processor runs, plainest first; for tests.
struct LoopLevels {
  const Loops* const* begin_;
  const Loops* const* end_;
  const Loops* const* begin() const { return begin_; }
  const Loops* const* end() const { return end_; }
};
LoopLevels loop_levels();

template <typename Element>
const ElementLoops<Element>& element_loops(const Loops& table);
template <>
inline const ElementLoops<float>& element_loops<float>(const Loops& table) {
  return table.float32;
}
template <>
inline const ElementLoops<BFloat16>& element_loops<BFloat16>(const Loops& table) {
  return table.bfloat16;
}

}  // namespace weft::kernel
