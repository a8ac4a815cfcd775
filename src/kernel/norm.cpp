#include "kernel/norm.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <ATen/ATen.h>

#include "kernel/parallel.h"
#include "kernel/rows.h"

namespace weft::kernel {
namespace {

int64_t row_count(const at::Tensor& x) { return x.numel() / x.size(-1); }

const float* optional_data(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.const_data_ptr<float>() : nullptr;
}
float* optional_buffer(const at::Tensor& tensor) { return tensor.defined() ? tensor.data_ptr<float>() : nullptr; }

std::string_view forward_reason(const at::Tensor& x, const at::Tensor&, double, bool) { return reason_against_rows(x); }

std::string_view layer_forward_reason(const at::Tensor& x, const at::Tensor&, const at::Tensor&, double, bool) {
  return reason_against_rows(x);
}

std::string_view backward_reason(const at::Tensor& dy, const at::Tensor& x, const at::Tensor&, const at::Tensor&,
                                 const NormParameterGradients&) {
  return reason_against_rows(dy, x);
}

// Output and statistics of a forward, filled by body(output rows, statistics or null). The output is contiguous, laid
// out with as many inner rows as x has.
template <typename Body>
NormResult filled(const at::Tensor& x, int64_t statistics, bool keep, Body body) {
  NormResult result;
  result.output = at::empty(x.sizes(), x.options());
  if (keep) {
    result.statistics = at::empty({row_count(x), statistics}, x.options().dtype(at::kFloat));
    if (statistics == 1) result.statistics = result.statistics.view({-1});
  }
  RowLayout rows = row_layout(x);
  rows.stride = rows.inner * rows.width;
  body(result.output, rows, optional_buffer(result.statistics));
  return result;
}

// Calls body(first place, number of places) for the places of `rows`, on several threads.
template <typename Body>
void each_place(const RowLayout& rows, Body body) {
  parallel_ranges(rows.outer, row_grain(rows.inner * rows.width),
                  [&](int64_t begin, int64_t end) { body(begin, end - begin); });
}

RowLayout part_of(RowLayout rows, int64_t places) {
  rows.outer = places;
  return rows;
}

// The memory of the numbers that a norm keeps for the rows from a place on; null if it keeps none.
float* statistics_at(float* statistics, const RowLayout& rows, int64_t place, int64_t each) {
  return statistics == nullptr ? nullptr : statistics + place * rows.inner * each;
}

NormResult rms_loops(const at::Tensor& x, const at::Tensor& weight, double epsilon, bool keep) {
  return filled(x, 1, keep, [&](const at::Tensor& output, const RowLayout& to_rows, float* statistics) {
    with_element(x.scalar_type(), [&](const auto& table, auto* element) {
      using Element = std::remove_pointer_t<decltype(element)>;
      const RowLayout rows = row_layout(x);
      const auto* from = data_of<Element>(x);
      const auto* gain = weight.const_data_ptr<float>();
      auto* to = data_of<Element>(output);
      each_place(rows, [&](int64_t place, int64_t places) {
        table.rms_norm_forward(from + place * rows.stride, part_of(rows, places), gain, static_cast<float>(epsilon),
                               to + place * to_rows.stride, to_rows, statistics_at(statistics, rows, place, 1));
      });
    });
  });
}

NormResult layer_loops(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, double epsilon,
                       bool keep) {
  return filled(x, 2, keep, [&](const at::Tensor& output, const RowLayout& to_rows, float* statistics) {
    with_element(x.scalar_type(), [&](const auto& table, auto* element) {
      using Element = std::remove_pointer_t<decltype(element)>;
      const RowLayout rows = row_layout(x);
      const auto* from = data_of<Element>(x);
      const float *gain = weight.const_data_ptr<float>(), *shift = optional_data(bias);
      auto* to = data_of<Element>(output);
      each_place(rows, [&](int64_t place, int64_t places) {
        table.layer_norm_forward(from + place * rows.stride, part_of(rows, places), gain, shift,
                                 static_cast<float>(epsilon), to + place * to_rows.stride, to_rows,
                                 statistics_at(statistics, rows, place, 2));
      });
    });
  });
}

// The rows of dy and of x, grouped alike.
std::pair<RowLayout, RowLayout> matching_rows(const at::Tensor& dy, const at::Tensor& x) {
  const RowLayout upper = row_layout(dy), lower = row_layout(x);
  const int64_t inner = std::max(upper.inner, lower.inner);
  return {regrouped(upper, inner), regrouped(lower, inner)};
}

// The backward in pieces of a fixed number of places, so that the sums over rows do not depend on the number of
// threads: each piece adds to sums of its own, [weight, bias], which are then added in order. body(first place, places,
// weight sums, bias sums).
template <typename Body>
void in_pieces(const RowLayout& rows, const NormParameterGradients& gradients, Body body) {
  constexpr int64_t kRowsPerPiece = 128;
  const int64_t places = std::max<int64_t>(1, kRowsPerPiece / rows.inner);
  const int64_t pieces = (rows.outer + places - 1) / places;
  if (pieces <= 1) return body(0, rows.outer, optional_buffer(gradients.weight), optional_buffer(gradients.bias));
  const bool weight = gradients.weight.defined(), bias = gradients.bias.defined();
  std::vector<float> sums(static_cast<size_t>(pieces * 2 * rows.width));
  parallel_ranges(pieces, 1, [&](int64_t begin, int64_t end) {
    for (int64_t piece = begin; piece < end; ++piece) {
      float* own = sums.data() + piece * 2 * rows.width;
      body(piece * places, std::min(places, rows.outer - piece * places), weight ? own : nullptr,
           bias ? own + rows.width : nullptr);
    }
  });
  const auto& add = loops().float32.column_sums;
  if (weight) add(sums.data(), pieces, rows.width, 2 * rows.width, gradients.weight.data_ptr<float>());
  if (bias) add(sums.data() + rows.width, pieces, rows.width, 2 * rows.width, gradients.bias.data_ptr<float>());
}

void rms_backward_loops(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& weight,
                        const at::Tensor& statistics, const NormParameterGradients& gradients) {
  with_element(x.scalar_type(), [&](const auto& table, auto* element) {
    using Element = std::remove_pointer_t<decltype(element)>;
    const auto rows = matching_rows(dy, x);
    const RowLayout &upper = rows.first, &lower = rows.second;
    auto* gradient = data_of<Element>(dy);
    const auto* from = data_of<Element>(x);
    const auto *gain = weight.const_data_ptr<float>(), *kept = statistics.const_data_ptr<float>();
    in_pieces(lower, gradients, [&](int64_t place, int64_t places, float* dweight, float*) {
      table.rms_norm_backward(gradient + place * upper.stride, upper, from + place * lower.stride,
                              part_of(lower, places), gain, kept + place * lower.inner, gradient + place * upper.stride,
                              upper, dweight);
    });
  });
}

void layer_backward_loops(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& weight,
                          const at::Tensor& statistics, const NormParameterGradients& gradients) {
  with_element(x.scalar_type(), [&](const auto& table, auto* element) {
    using Element = std::remove_pointer_t<decltype(element)>;
    const auto rows = matching_rows(dy, x);
    const RowLayout &upper = rows.first, &lower = rows.second;
    auto* gradient = data_of<Element>(dy);
    const auto* from = data_of<Element>(x);
    const auto *gain = weight.const_data_ptr<float>(), *kept = statistics.const_data_ptr<float>();
    in_pieces(lower, gradients, [&](int64_t place, int64_t places, float* dweight, float* dbias) {
      table.layer_norm_backward(gradient + place * upper.stride, upper, from + place * lower.stride,
                                part_of(lower, places), gain, kept + place * lower.inner * 2,
                                gradient + place * upper.stride, upper, dweight, dbias);
    });
  });
}

// The references, in the words of the formulas.

at::Tensor summed_over_rows(const at::Tensor& x) { return x.reshape({-1, x.size(-1)}).sum(0); }

NormResult rms_reference(const at::Tensor& x, const at::Tensor& weight, double epsilon, bool keep) {
  const at::Tensor wide = x.to(at::kFloat);
  const at::Tensor inverse = (wide * wide).mean({-1}, true).add(epsilon).rsqrt();
  NormResult result;
  result.output = (wide * inverse * weight).to(x.scalar_type()).contiguous();
  if (keep) result.statistics = inverse.reshape({-1});
  return result;
}

NormResult layer_reference(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, double epsilon,
                           bool keep) {
  const at::Tensor wide = x.to(at::kFloat);
  const at::Tensor mean = wide.mean({-1}, true);
  const at::Tensor centred = wide - mean;
  const at::Tensor inverse = (centred * centred).mean({-1}, true).add(epsilon).rsqrt();
  NormResult result;
  at::Tensor output = centred * inverse * weight;
  if (bias.defined()) output = output + bias;
  result.output = output.to(x.scalar_type()).contiguous();
  if (keep) result.statistics = at::cat({mean, inverse}, -1).reshape({-1, 2});
  return result;
}

std::vector<int64_t> one_value_a_row(const at::Tensor& x) {
  std::vector<int64_t> shape = x.sizes().vec();
  shape.back() = 1;
  return shape;
}

void rms_backward_reference(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& weight,
                            const at::Tensor& statistics, const NormParameterGradients& gradients) {
  const at::Tensor inverse = statistics.reshape(one_value_a_row(x));
  const at::Tensor normalised = x.to(at::kFloat) * inverse;
  const at::Tensor upper = dy.to(at::kFloat);
  if (gradients.weight.defined()) gradients.weight.add_(summed_over_rows(upper * normalised));
  const at::Tensor weighted = upper * weight;
  dy.copy_(inverse * (weighted - normalised * (weighted * normalised).mean({-1}, true)));
}

void layer_backward_reference(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& weight,
                              const at::Tensor& statistics, const NormParameterGradients& gradients) {
  const at::Tensor mean = statistics.select(1, 0).reshape(one_value_a_row(x));
  const at::Tensor inverse = statistics.select(1, 1).reshape(one_value_a_row(x));
  const at::Tensor normalised = (x.to(at::kFloat) - mean) * inverse;
  const at::Tensor upper = dy.to(at::kFloat);
  if (gradients.weight.defined()) gradients.weight.add_(summed_over_rows(upper * normalised));
  if (gradients.bias.defined()) gradients.bias.add_(summed_over_rows(upper));
  const at::Tensor weighted = upper * weight;
  dy.copy_(inverse * (weighted - weighted.mean({-1}, true) - normalised * (weighted * normalised).mean({-1}, true)));
}

constexpr decltype(rms_norm_forward)::Implementation kRmsForward[] = {{"loops", forward_reason, rms_loops},
                                                                      {"reference", nullptr, rms_reference}};
constexpr decltype(layer_norm_forward)::Implementation kLayerForward[] = {{"loops", layer_forward_reason, layer_loops},
                                                                          {"reference", nullptr, layer_reference}};
constexpr NormBackward::Implementation kRmsBackward[] = {{"loops", backward_reason, rms_backward_loops},
                                                         {"reference", nullptr, rms_backward_reference}};
constexpr NormBackward::Implementation kLayerBackward[] = {{"loops", backward_reason, layer_backward_loops},
                                                           {"reference", nullptr, layer_backward_reference}};

}  // namespace

const decltype(rms_norm_forward) rms_norm_forward("rms_norm_forward", kRmsForward);
const decltype(layer_norm_forward) layer_norm_forward("layer_norm_forward", kLayerForward);
const NormBackward rms_norm_backward("rms_norm_backward", kRmsBackward);
const NormBackward layer_norm_backward("layer_norm_backward", kLayerBackward);

}  // namespace weft::kernel
