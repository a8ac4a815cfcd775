#include "optim/newton_schulz.h"

#include <ATen/ATen.h>

#include "base/check.h"

namespace weft::optim {

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
  // The Gram matrix of the shorter side.
  const bool tall = matrix.size(-2) > matrix.size(-1);
  const at::Tensor flat =
      (tall ? matrix.mT() : matrix)
          .reshape({-1, std::min(matrix.size(-2), matrix.size(-1)), std::max(matrix.size(-2), matrix.size(-1))});
  const at::Tensor largest = flat.abs().amax({1, 2}, true);
  at::Tensor x = flat / at::where(largest > 0, largest, at::ones_like(largest));
  const at::Tensor norm = x.square().sum({1, 2}, true).sqrt();
  x = x / at::where(norm > 0, norm, at::ones_like(norm));
  for (const QuinticStep& step : steps) {
    const at::Tensor gram = at::bmm(x, x.mT());
    const at::Tensor polynomial = at::baddbmm(gram, gram, gram, step.b, step.c);
    x = at::baddbmm(x, polynomial, x, step.a, 1);
  }
  return (tall ? x.mT() : x).reshape(matrix.sizes());
}

}  // namespace weft::optim
