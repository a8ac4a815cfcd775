#include "kernel/activation.h"

#include <ATen/ATen.h>

#include "kernel/parallel.h"
#include "kernel/rows.h"

namespace weft::kernel {
namespace {

std::string_view reason_against_contiguous(const at::Tensor& x) {
  const std::string_view reason = reason_against_rows(x);
  if (!reason.empty()) return reason;
  return x.is_contiguous() ? "" : "it is not contiguous";
}

std::string_view one_reason(const at::Tensor& x) { return reason_against_contiguous(x); }

std::string_view two_reason(const at::Tensor& dout, const at::Tensor& x) {
  const std::string_view reason = reason_against_contiguous(dout);
  return reason.empty() ? reason_against_contiguous(x) : reason;
}

std::string_view gelu_reason(const at::Tensor& x, bool) { return reason_against_contiguous(x); }
std::string_view gelu_backward_reason(const at::Tensor& dout, const at::Tensor& x, bool) { return two_reason(dout, x); }

at::Tensor swiglu_loops(const at::Tensor& joined) {
  const int64_t width = joined.size(1) / 2;
  at::Tensor out = at::empty({joined.size(0), width}, joined.options());
  with_element(joined.scalar_type(), [&](const auto& table, auto* element) {
    using Element = std::remove_pointer_t<decltype(element)>;
    const auto* gate = data_of<Element>(joined);
    auto* to = data_of<Element>(out);
    parallel_ranges(joined.size(0), row_grain(width), [&](int64_t begin, int64_t end) {
      const auto* first = gate + begin * 2 * width;
      table.swiglu_forward(first, first + width, end - begin, width, 2 * width, to + begin * width);
    });
  });
  return out;
}

void swiglu_backward_loops(const at::Tensor& dout, const at::Tensor& joined) {
  const int64_t width = joined.size(1) / 2;
  with_element(joined.scalar_type(), [&](const auto& table, auto* element) {
    using Element = std::remove_pointer_t<decltype(element)>;
    auto* gate = data_of<Element>(joined);
    auto* upper = data_of<Element>(dout);
    parallel_ranges(joined.size(0), row_grain(width), [&](int64_t begin, int64_t end) {
      auto* first = gate + begin * 2 * width;
      table.swiglu_backward(upper + begin * width, first, first + width, end - begin, width, 2 * width);
    });
  });
}

at::Tensor gelu_loops(const at::Tensor& x, bool tanh) {
  at::Tensor out = at::empty_like(x);
  with_element(x.scalar_type(), [&](const auto& table, auto* element) {
    using Element = std::remove_pointer_t<decltype(element)>;
    const auto* from = data_of<Element>(x);
    auto* to = data_of<Element>(out);
    parallel_ranges(x.numel(), kParallelElements, [&](int64_t begin, int64_t end) {
      table.gelu_forward(from + begin, end - begin, tanh, to + begin);
    });
  });
  return out;
}

void gelu_backward_loops(const at::Tensor& dout, const at::Tensor& x, bool tanh) {
  with_element(x.scalar_type(), [&](const auto& table, auto* element) {
    using Element = std::remove_pointer_t<decltype(element)>;
    auto* upper = data_of<Element>(dout);
    auto* before = data_of<Element>(x);
    parallel_ranges(x.numel(), kParallelElements, [&](int64_t begin, int64_t end) {
      table.gelu_backward(upper + begin, before + begin, end - begin, tanh);
    });
  });
}

at::Tensor swiglu_reference(const at::Tensor& joined) {
  const std::vector<at::Tensor> halves = joined.to(at::kFloat).chunk(2, 1);
  return (at::silu(halves[0]) * halves[1]).to(joined.scalar_type());
}

void swiglu_backward_reference(const at::Tensor& dout, const at::Tensor& joined) {
  const std::vector<at::Tensor> halves = joined.to(at::kFloat).chunk(2, 1);
  const at::Tensor& gate = halves[0];
  const at::Tensor upper = dout.to(at::kFloat);
  const at::Tensor s = at::sigmoid(gate);
  const at::Tensor silu = gate * s;
  const at::Tensor gradient = at::cat({upper * halves[1] * (s + silu * (1 - s)), upper * silu}, 1);
  dout.copy_(silu * halves[1]);
  joined.copy_(gradient);
}

at::Tensor gelu_reference(const at::Tensor& x, bool tanh) {
  return at::gelu(x.to(at::kFloat), tanh ? "tanh" : "none").to(x.scalar_type());
}

void gelu_backward_reference(const at::Tensor& dout, const at::Tensor& x, bool tanh) {
  const at::Tensor gradient = at::gelu_backward(dout.to(at::kFloat), x.to(at::kFloat), tanh ? "tanh" : "none");
  dout.copy_(gelu_reference(x, tanh));
  x.copy_(gradient);
}

constexpr decltype(swiglu_forward)::Implementation kSwiGlu[] = {{"loops", one_reason, swiglu_loops},
                                                                {"reference", nullptr, swiglu_reference}};
constexpr decltype(swiglu_backward)::Implementation kSwiGluBackward[] = {
    {"loops", two_reason, swiglu_backward_loops}, {"reference", nullptr, swiglu_backward_reference}};
constexpr decltype(gelu_forward)::Implementation kGelu[] = {{"loops", gelu_reason, gelu_loops},
                                                            {"reference", nullptr, gelu_reference}};
constexpr decltype(gelu_backward)::Implementation kGeluBackward[] = {
    {"loops", gelu_backward_reason, gelu_backward_loops}, {"reference", nullptr, gelu_backward_reference}};

}  // namespace

const decltype(swiglu_forward) swiglu_forward("swiglu_forward", kSwiGlu);
const decltype(swiglu_backward) swiglu_backward("swiglu_backward", kSwiGluBackward);
const decltype(gelu_forward) gelu_forward("gelu_forward", kGelu);
const decltype(gelu_backward) gelu_backward("gelu_backward", kGeluBackward);

}  // namespace weft::kernel
