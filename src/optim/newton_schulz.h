// The nearest orthogonal direction of a matrix, by products alone.
#pragma once

#include <array>
#include <string_view>
#include <vector>

#include <ATen/core/Tensor.h>

namespace weft::optim {

// X <- a X + (b X X^T + c (X X^T)^2) X: each singular value x becomes a x + b x^3 + c x^5.
struct QuinticStep {
  double a, b, c;
};

// "jordan": five times (3.4445, -4.7750, 2.0315), of Keller Jordan's Muon, which takes singular values in [0.01, 1] to
// [0.68, 1.14]. "polar_express" (arXiv 2505.16932): five steps that differ, safe for values up to 1.02, which take
// [0.003, 1] to [0.85, 1.15].
[[nodiscard]] std::vector<QuinticStep> quintic_steps(std::string_view coefficients);

// Of a matrix (A, B) or of each of a stack (..., A, B), in the matrix's own floating type; the argument stays. With
// u = U diag(s) V^T it is U diag(p(s / |u|_F)) V^T, p being the steps' polynomials one behind another. It does not
// depend on the size of u: u is first divided by its largest element, so that no square over- or underflows; zeros
// stay zeros.
[[nodiscard]] at::Tensor orthogonalised(const at::Tensor& matrix, const std::vector<QuinticStep>& steps);

}  // namespace weft::optim
