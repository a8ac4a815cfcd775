#include "kernel/update.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include <ATen/ATen.h>

#include "kernel/parallel.h"
#include "kernel/rows.h"

namespace weft::kernel {
namespace {

std::string_view reason_against_flat(const at::Tensor& tensor) {
  if (tensor.scalar_type() != at::kFloat || !tensor.is_contiguous()) return "it is not a contiguous float buffer";
  return tensor.device().is_cpu() ? "" : "it is not on the CPU";
}

std::string_view adamw_reason(const AdamWStep&, const at::Tensor& parameter, const at::Tensor& gradient,
                              const at::Tensor& average, const at::Tensor& square) {
  for (const at::Tensor* tensor : {&parameter, &gradient, &average, &square}) {
    const std::string_view reason = reason_against_flat(*tensor);
    if (!reason.empty()) return reason;
  }
  return {};
}

void adamw_loops(const AdamWStep& step, const at::Tensor& parameter, const at::Tensor& gradient,
                 const at::Tensor& average, const at::Tensor& square) {
  auto *to = data_of<float>(parameter), *first = data_of<float>(average), *second = data_of<float>(square);
  const auto* from = data_of<float>(gradient);
  parallel_ranges(parameter.numel(), kParallelElements, [&](int64_t begin, int64_t end) {
    loops().adamw(step, end - begin, to + begin, from + begin, first + begin, second + begin);
  });
}

void adamw_reference(const AdamWStep& step, const at::Tensor& parameter, const at::Tensor& gradient,
                     const at::Tensor& average, const at::Tensor& square) {
  const at::Tensor scaled = gradient * step.gradient_scale;
  average.add_((scaled - average) * step.average_weight);
  square.mul_(step.square_decay).add_(scaled * scaled * step.square_weight);
  const at::Tensor denominator = square.sqrt() / step.square_correction + step.epsilon;
  parameter.mul_(step.parameter_decay).sub_(average * step.step_size / denominator);
}

std::string_view sum_reason(const at::Tensor& x) { return reason_against_flat(x); }

// Pieces of a fixed size, added in order.
double sum_loops(const at::Tensor& x) {
  constexpr int64_t kPiece = 1 << 16;
  const int64_t count = x.numel();
  const auto* from = data_of<float>(x);
  std::vector<double> sums(static_cast<size_t>((count + kPiece - 1) / kPiece));
  parallel_ranges(static_cast<int64_t>(sums.size()), 1, [&](int64_t begin, int64_t end) {
    for (int64_t piece = begin; piece < end; ++piece) {
      const int64_t first = piece * kPiece;
      sums[static_cast<size_t>(piece)] = loops().sum_of_squares(from + first, std::min(kPiece, count - first));
    }
  });
  return std::accumulate(sums.begin(), sums.end(), 0.0);
}

double sum_reference(const at::Tensor& x) { return x.to(at::kDouble).square().sum().item<double>(); }

constexpr decltype(adamw_update)::Implementation kAdamW[] = {{"loops", adamw_reason, adamw_loops},
                                                             {"reference", nullptr, adamw_reference}};
constexpr decltype(sum_of_squares)::Implementation kSum[] = {{"loops", sum_reason, sum_loops},
                                                             {"reference", nullptr, sum_reference}};

}  // namespace

const decltype(adamw_update) adamw_update("adamw_update", kAdamW);
const decltype(sum_of_squares) sum_of_squares("sum_of_squares", kSum);

}  // namespace weft::kernel
