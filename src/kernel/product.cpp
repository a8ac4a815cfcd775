#include "kernel/product.h"

#include <algorithm>

#include <ATen/ATen.h>

#include "kernel/blas.h"
#include "kernel/parallel.h"
#include "kernel/rows.h"

namespace weft::kernel {
namespace {

std::string_view reason_against_matrix(const at::Tensor& matrix) {
  if (!matrix.device().is_cpu()) return "it is not on the CPU";
  if (matrix.scalar_type() != at::kFloat && matrix.scalar_type() != at::kBFloat16)
    return "it is neither float nor bfloat16";
  if (matrix.dim() != 2 || (matrix.stride(1) != 1 && matrix.size(1) != 1)) return "its rows are not contiguous";
  if (!product_fits(matrix.size(0), matrix.size(1), matrix.stride(0))) return "it is beyond 32-bit sizes";
  return {};
}

std::string_view reason_against_product(const at::Tensor& out, const at::Tensor& a, const at::Tensor& b) {
  if (!has_blas()) return "this build's LibTorch exports no products";
  for (const at::Tensor* matrix : {&out, &a, &b}) {
    const std::string_view reason = reason_against_matrix(*matrix);
    if (!reason.empty()) return reason;
  }
  return a.scalar_type() == b.scalar_type() ? "" : "its factors are of two types";
}

int64_t row_stride(const at::Tensor& matrix) { return std::max(matrix.stride(0), matrix.size(1)); }

template <typename Element>
BlasMatrix<Element> view(const at::Tensor& matrix, bool transposed) {
  return {data_of<Element>(matrix), row_stride(matrix), transposed};
}

// out = op(a) b in out's type; a float result is written in place, another goes through fp32 tiles that stay in the
// cache. `prepare` fills the first `count` rows of a tile before the product is added to them.
template <typename Prepare>
void product_of(const at::Tensor& out, const at::Tensor& a, const at::Tensor& b, bool b_transposed, float beta,
                Prepare prepare) {
  const int64_t rows = out.size(0), columns = out.size(1), depth = a.size(1);
  with_element(a.scalar_type(), [&](const auto&, auto* element) {
    using Element = std::remove_pointer_t<decltype(element)>;
    const BlasMatrix<Element> left = view<Element>(a, false), right = view<Element>(b, b_transposed);
    if (out.scalar_type() == at::kFloat) {
      prepare(data_of<float>(out), row_stride(out), rows);
      multiply(rows, columns, depth, 1, left, right, beta, data_of<float>(out), row_stride(out));
      return;
    }
    constexpr int64_t kTileRows = 256;
    const at::Tensor tile = at::empty({std::min(kTileRows, rows), columns}, at::kFloat);
    for (int64_t row = 0; row < rows; row += kTileRows) {
      const int64_t count = std::min(kTileRows, rows - row);
      prepare(data_of<float>(tile), columns, count);
      multiply(count, columns, depth, 1, {left.data + row * left.stride, left.stride, false}, right, beta,
               data_of<float>(tile), columns);
      loops().bfloat16.from_float(data_of<float>(tile), columns, data_of<BFloat16>(out) + row * row_stride(out),
                                  {count, 1, columns, row_stride(out)});
    }
  });
}

std::string_view forward_reason(const at::Tensor& out, const at::Tensor& x, const at::Tensor& weight,
                                const at::Tensor&) {
  return reason_against_product(out, x, weight);
}

void forward_mkl(const at::Tensor& out, const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  if (!bias.defined()) {
    product_of(out, x, weight, true, 0, [](float*, int64_t, int64_t) {});
    return;
  }
  const auto* from = bias.const_data_ptr<float>();
  product_of(out, x, weight, true, 1, [&](float* to, int64_t stride, int64_t rows) {
    for (int64_t row = 0; row < rows; ++row) std::copy_n(from, out.size(1), to + row * stride);
  });
}

std::string_view input_gradient_reason(const at::Tensor& dx, const at::Tensor& dy, const at::Tensor& weight, bool add) {
  if (add && dx.scalar_type() != at::kFloat) return "only fp32 is added to";
  return reason_against_product(dx, dy, weight);
}

void input_gradient_mkl(const at::Tensor& dx, const at::Tensor& dy, const at::Tensor& weight, bool add) {
  product_of(dx, dy, weight, false, add ? 1.0F : 0.0F, [](float*, int64_t, int64_t) {});
}

std::string_view weight_gradient_reason(const at::Tensor& dweight, const at::Tensor& dy, const at::Tensor& x, bool) {
  return reason_against_product(dweight, dy, x);
}

void weight_gradient_mkl(const at::Tensor& dweight, const at::Tensor& dy, const at::Tensor& x, bool add) {
  with_element(x.scalar_type(), [&](const auto&, auto* element) {
    using Element = std::remove_pointer_t<decltype(element)>;
    multiply(dy.size(1), x.size(1), x.size(0), 1, view<Element>(dy, true), view<Element>(x, false), add ? 1.0F : 0.0F,
             data_of<float>(dweight), row_stride(dweight));
  });
}

// In fp32, since a product of bfloat16 matrices rounds its sums to bfloat16.
void forward_reference(const at::Tensor& out, const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  const at::Tensor product = at::mm(x.to(at::kFloat), weight.to(at::kFloat).t());
  out.copy_(bias.defined() ? product + bias : product);
}

void input_gradient_reference(const at::Tensor& dx, const at::Tensor& dy, const at::Tensor& weight, bool add) {
  const at::Tensor product = at::mm(dy.to(at::kFloat), weight.to(at::kFloat));
  dx.copy_(add ? dx + product : product);
}

void weight_gradient_reference(const at::Tensor& dweight, const at::Tensor& dy, const at::Tensor& x, bool add) {
  const at::Tensor product = at::mm(dy.to(at::kFloat).t(), x.to(at::kFloat));
  dweight.copy_(add ? dweight + product : product);
}

std::string_view bias_gradient_reason(const at::Tensor&, const at::Tensor& dy) { return reason_against_matrix(dy); }

void bias_gradient_loops(const at::Tensor& dbias, const at::Tensor& dy) {
  with_element(dy.scalar_type(), [&](const auto& table, auto* element) {
    using Element = std::remove_pointer_t<decltype(element)>;
    const auto* from = data_of<Element>(dy);
    auto* to = data_of<float>(dbias);
    parallel_ranges(dy.size(1), row_grain(dy.size(0)), [&](int64_t begin, int64_t end) {
      table.column_sums(from + begin, dy.size(0), end - begin, row_stride(dy), to + begin);
    });
  });
}

void bias_gradient_reference(const at::Tensor& dbias, const at::Tensor& dy) { dbias.add_(dy.to(at::kFloat).sum(0)); }

constexpr decltype(product_forward)::Implementation kForward[] = {{"mkl", forward_reason, forward_mkl},
                                                                  {"reference", nullptr, forward_reference}};
constexpr decltype(product_input_gradient)::Implementation kInputGradient[] = {
    {"mkl", input_gradient_reason, input_gradient_mkl}, {"reference", nullptr, input_gradient_reference}};
constexpr decltype(product_weight_gradient)::Implementation kWeightGradient[] = {
    {"mkl", weight_gradient_reason, weight_gradient_mkl}, {"reference", nullptr, weight_gradient_reference}};
constexpr decltype(bias_gradient)::Implementation kBiasGradient[] = {
    {"loops", bias_gradient_reason, bias_gradient_loops}, {"reference", nullptr, bias_gradient_reference}};

}  // namespace

const decltype(product_forward) product_forward("product_forward", kForward);
const decltype(product_input_gradient) product_input_gradient("product_input_gradient", kInputGradient);
const decltype(product_weight_gradient) product_weight_gradient("product_weight_gradient", kWeightGradient);
const decltype(bias_gradient) bias_gradient("bias_gradient", kBiasGradient);

at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, at::ScalarType type) {
  at::Tensor out = at::empty({x.size(0), weight.size(0)}, x.options().dtype(type));
  product_forward(out, x, weight, bias);
  return out;
}

at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  return linear(x, weight, bias, x.scalar_type());
}

at::Tensor linear_input_gradient(const at::Tensor& dy, const at::Tensor& weight) {
  at::Tensor dx = at::empty({dy.size(0), weight.size(1)}, dy.options());
  product_input_gradient(dx, dy, weight, false);
  return dx;
}

}  // namespace weft::kernel
