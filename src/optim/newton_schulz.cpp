#include "optim/newton_schulz.h"

#include <algorithm>
#include <utility>

#include <ATen/ATen.h>

#include "base/check.h"
#include "kernel/blas.h"

namespace weft::optim {
namespace {

// What the steps compute with: all of one shape, so that nothing is allocated between them.
struct Workspace {
  at::Tensor x, next;           // (n, k), n <= k
  at::Tensor gram, polynomial;  // (n, n)
};

void step_with_operators(const QuinticStep& step, Workspace& work) {
  at::mm_out(work.gram, work.x, work.x.t());
  at::addmm_out(work.polynomial, work.gram, work.gram, work.gram, step.b, step.c);
  at::addmm_out(work.next, work.x, work.polynomial, work.x, step.a, 1);
}

// Rows of a symmetric product that are computed at once: only columns up to the last of them are.
constexpr int64_t kSymmetricRows = 256;

// to [n, n] = alpha from from^T + beta to, which is symmetric; from is [n, k].
void symmetric_product(const at::Tensor& from, float alpha, float beta, const at::Tensor& to) {
  const int64_t n = from.size(0), k = from.size(1);
  const auto* data = from.const_data_ptr<float>();
  auto* out = to.data_ptr<float>();
  for (int64_t begin = 0; begin < n; begin += kSymmetricRows) {
    const int64_t end = std::min(n, begin + kSymmetricRows), rows = end - begin;
    kernel::multiply(rows, end, k, alpha, {data + begin * k, k}, {data, k, true}, beta, out + begin * n, n);
    to.narrow(0, 0, begin).narrow(1, begin, rows).copy_(to.narrow(0, begin, rows).narrow(1, 0, begin).t());
  }
}

void step_with_symmetry(const QuinticStep& step, Workspace& work) {
  const int64_t n = work.x.size(0), k = work.x.size(1);
  symmetric_product(work.x, 1, 0, work.gram);
  work.polynomial.copy_(work.gram);
  symmetric_product(work.gram, static_cast<float>(step.c), static_cast<float>(step.b), work.polynomial);
  work.next.copy_(work.x);
  kernel::multiply(n, k, n, 1, {work.polynomial.const_data_ptr<float>(), n}, {work.x.const_data_ptr<float>(), k},
                   static_cast<float>(step.a), work.next.data_ptr<float>(), k);
}

// Divided by its largest element and then by its norm, so that no square over- or underflows.
at::Tensor of_norm_one(const at::Tensor& matrix) {
  const at::Tensor largest = matrix.abs().max();
  const at::Tensor scaled = matrix / at::where(largest > 0, largest, at::ones_like(largest));
  const at::Tensor norm = scaled.square().sum().sqrt();
  return scaled / at::where(norm > 0, norm, at::ones_like(norm));
}

at::Tensor wide_orthogonalised(const at::Tensor& matrix, const std::vector<QuinticStep>& steps) {
  const int64_t n = matrix.size(0), k = matrix.size(1);
  Workspace work;
  work.x = of_norm_one(matrix).contiguous();
  work.next = at::empty_like(work.x);
  work.gram = at::empty({n, n}, work.x.options());
  work.polynomial = at::empty_like(work.gram);
  const bool kernels = work.x.scalar_type() == at::kFloat && work.x.device().is_cpu() && kernel::has_blas() &&
                       kernel::product_fits(n, k, std::max(n, k));
  for (const QuinticStep& step : steps) {
    kernels ? step_with_symmetry(step, work) : step_with_operators(step, work);
    std::swap(work.x, work.next);
  }
  return work.x;
}

}  // namespace

std::vector<QuinticStep> quintic_steps(std::string_view coefficients) {
  if (coefficients == "polar_express") {
    return {{8.1566, -22.4833, 15.8788},
            {4.0429, -2.8089, 0.5000},
            {3.8917, -2.7725, 0.5061},
            {3.2858, -2.3681, 0.4645},
            {2.3465, -1.7098, 0.4232}};
  }
  WEFT_CHECK(coefficients == "jordan");
  return std::vector<QuinticStep>(5, {3.4445, -4.7750, 2.0315});
}

at::Tensor orthogonalised(const at::Tensor& matrix, const std::vector<QuinticStep>& steps) {
  WEFT_CHECK(matrix.dim() >= 2 && matrix.is_floating_point());
  if (matrix.numel() == 0) return matrix.clone();
  const int64_t rows = matrix.size(-2), columns = matrix.size(-1);
  const at::Tensor stack = matrix.reshape({-1, rows, columns});
  at::Tensor result = at::empty_like(stack);
  for (int64_t index = 0; index < stack.size(0); ++index) {
    const at::Tensor one = stack.select(0, index);
    // The Gram matrix of the shorter side.
    result.select(0, index).copy_(rows > columns ? wide_orthogonalised(one.t(), steps).t()
                                                 : wide_orthogonalised(one, steps));
  }
  return result.view(matrix.sizes());
}

}  // namespace weft::optim
