#include "kernel/cross_entropy.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include <ATen/ATen.h>

#include "base/check.h"
#include "kernel/parallel.h"
#include "kernel/rows.h"

namespace weft::kernel {
namespace {

std::string_view loops_reason(const at::Tensor& logits, const at::Tensor&, const CrossEntropyOptions&) {
  if (logits.scalar_type() != at::kFloat) return "it is not float";
  return reason_against_rows(logits);
}

// The place of the gradient: each of its rows starts where the row of logits did.
at::Tensor gradient_over(const at::Tensor& logits, at::ScalarType type) {
  if (type == at::kFloat) return logits;
  return logits.view(type).narrow(1, 0, logits.size(1));
}

CrossEntropy cross_entropy_loops(const at::Tensor& logits, const at::Tensor& targets,
                                 const CrossEntropyOptions& options) {
  const at::Tensor labels = targets.contiguous();
  const auto* label = labels.const_data_ptr<int64_t>();
  const int64_t width = logits.size(1);
  CrossEntropy result;
  if (options.gradient) result.gradient = gradient_over(logits, options.gradient_type);
  std::vector<double> losses(static_cast<size_t>(logits.size(0)));
  for (int64_t row = 0; row < logits.size(0); ++row) WEFT_CHECK(label[row] < width);
  with_element(options.gradient_type, [&](const auto& table, auto* element) {
    using Element = std::remove_pointer_t<decltype(element)>;
    auto* first = data_of<float>(logits);
    parallel_ranges(logits.size(0), row_grain(width), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        auto* row_of_logits = first + row * logits.stride(0);
        auto* gradient = options.gradient ? reinterpret_cast<Element*>(row_of_logits) : nullptr;
        losses[static_cast<size_t>(row)] =
            table.cross_entropy(row_of_logits, width, label[row], static_cast<float>(options.scale), gradient);
      }
    });
  });
  for (const double loss : losses) result.loss_sum += loss;
  return result;
}

CrossEntropy cross_entropy_reference(const at::Tensor& logits, const at::Tensor& targets,
                                     const CrossEntropyOptions& options) {
  const at::Tensor counted = targets.ge(0);
  const at::Tensor label = targets.clamp_min(0).unsqueeze(1);
  const at::Tensor log_probabilities = at::log_softmax(logits, 1);
  const at::Tensor losses = log_probabilities.gather(1, label).squeeze(1).neg() * counted;
  CrossEntropy result;
  result.loss_sum = losses.sum(at::kDouble).item<double>();
  if (options.gradient) {
    result.gradient = gradient_over(logits, options.gradient_type);
    const at::Tensor one = at::full_like(label, -1, logits.scalar_type());
    const at::Tensor gradient =
        log_probabilities.exp().scatter_add(1, label, one) * counted.unsqueeze(1) * options.scale;
    result.gradient.copy_(gradient);
  }
  return result;
}

constexpr decltype(cross_entropy)::Implementation kCrossEntropy[] = {{"loops", loops_reason, cross_entropy_loops},
                                                                     {"reference", nullptr, cross_entropy_reference}};

std::string_view statistics_reason(const at::Tensor& logits, const at::Tensor&) { return loops_reason(logits, {}, {}); }

at::Tensor statistics_loops(const at::Tensor& logits, const at::Tensor& targets) {
  const at::Tensor labels = targets.contiguous();
  const auto* label = labels.const_data_ptr<int64_t>();
  const int64_t width = logits.size(1);
  at::Tensor statistics = at::empty({logits.size(0), 3}, at::kFloat);
  const auto* first = data_of<float>(logits);
  auto* out = data_of<float>(statistics);
  parallel_ranges(logits.size(0), row_grain(width), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const float* row_of_logits = first + row * logits.stride(0);
      float greatest = -std::numeric_limits<float>::infinity();
      double sum = 0;
      if (width > 0) loops().row_statistics(row_of_logits, width, &greatest, &sum);
      const bool here = label[row] >= 0 && label[row] < width;
      out[3 * row] = greatest;
      out[3 * row + 1] = static_cast<float>(sum);
      out[3 * row + 2] = here ? row_of_logits[label[row]] : 0.0F;
    }
  });
  return statistics;
}

// Targets in range, and where they are.
std::pair<at::Tensor, at::Tensor> targets_here(const at::Tensor& targets, int64_t width) {
  const at::Tensor here = targets.ge(0).logical_and(targets.lt(width));
  return {at::where(here, targets, 0).unsqueeze(1), here};
}

at::Tensor statistics_reference(const at::Tensor& logits, const at::Tensor& targets) {
  if (logits.size(1) == 0) {
    const at::Tensor none = at::zeros({logits.size(0), 3}, logits.options());
    none.select(1, 0).fill_(-std::numeric_limits<double>::infinity());
    return none;
  }
  const auto [label, here] = targets_here(targets, logits.size(1));
  const at::Tensor greatest = logits.amax({1}, true);
  return at::stack({greatest.squeeze(1), (logits - greatest).exp().sum(1), logits.gather(1, label).squeeze(1) * here},
                   1);
}

std::string_view combine_reason(const at::Tensor& statistics, const at::Tensor&, double) {
  return reason_against_rows(statistics);
}

// One row's parts, 3 numbers each, `stride` apart.
struct CombinedRow {
  double greatest, sum, target_logit;
};

CombinedRow combine(const float* part, int64_t parts, int64_t stride) {
  CombinedRow row{-std::numeric_limits<double>::infinity(), 0, 0};
  for (int64_t i = 0; i < parts; ++i) row.greatest = std::max(row.greatest, static_cast<double>(part[i * stride]));
  for (int64_t i = 0; i < parts; ++i) {
    const float* each = part + i * stride;
    if (each[1] > 0) row.sum += static_cast<double>(each[1]) * std::exp(static_cast<double>(each[0]) - row.greatest);
    row.target_logit += static_cast<double>(each[2]);
  }
  return row;
}

SoftmaxRows empty_rows(int64_t rows) {
  const at::TensorOptions single(at::kFloat);
  return {at::zeros({rows}, at::kDouble), at::zeros({rows}, single), at::zeros({rows}, single),
          at::zeros({rows}, single)};
}

SoftmaxRows combine_loops(const at::Tensor& statistics, const at::Tensor& targets, double scale) {
  const at::Tensor whole = statistics.contiguous();
  const at::Tensor labels = targets.contiguous();
  const int64_t parts = whole.size(0), rows = whole.size(1);
  SoftmaxRows result = empty_rows(rows);
  for (int64_t row = 0; row < rows; ++row) {
    if (labels.const_data_ptr<int64_t>()[row] < 0) continue;
    const CombinedRow combined = combine(data_of<float>(whole) + 3 * row, parts, 3 * rows);
    const double loss = combined.greatest + std::log(combined.sum) - combined.target_logit;
    data_of<double>(result.losses)[row] = loss;
    data_of<float>(result.greatest)[row] = static_cast<float>(combined.greatest);
    data_of<float>(result.factors)[row] = static_cast<float>(scale / combined.sum);
    data_of<float>(result.target_gradients)[row] = static_cast<float>((std::exp(-loss) - 1) * scale);
  }
  return result;
}

SoftmaxRows combine_reference(const at::Tensor& statistics, const at::Tensor& targets, double scale) {
  const at::Tensor wide = statistics.to(at::kDouble);
  const at::Tensor counted = targets.ge(0);
  const at::Tensor greatest = wide.select(2, 0).amax({0});
  const at::Tensor sum = (wide.select(2, 1) * (wide.select(2, 0) - greatest).exp()).sum(0);
  const at::Tensor losses = (greatest + sum.log() - wide.select(2, 2).sum(0)) * counted;
  return {losses, (greatest * counted).to(at::kFloat), (counted * scale / sum).to(at::kFloat),
          (((-losses).exp() - 1) * scale * counted).to(at::kFloat)};
}

std::string_view softmax_reason(const at::Tensor& logits, const at::Tensor&, const SoftmaxRows&, at::ScalarType) {
  return loops_reason(logits, {}, {});
}

at::Tensor softmax_gradient_loops(const at::Tensor& logits, const at::Tensor& targets, const SoftmaxRows& rows,
                                  at::ScalarType type) {
  const at::Tensor labels = targets.contiguous();
  const auto* label = labels.const_data_ptr<int64_t>();
  const int64_t width = logits.size(1);
  at::Tensor gradient = gradient_over(logits, type);
  const float *greatest = data_of<float>(rows.greatest), *factor = data_of<float>(rows.factors);
  const float* target_gradient = data_of<float>(rows.target_gradients);
  with_element(type, [&](const auto& table, auto* element) {
    using Element = std::remove_pointer_t<decltype(element)>;
    auto* first = data_of<float>(logits);
    parallel_ranges(logits.size(0), row_grain(width), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        auto* row_of_logits = first + row * logits.stride(0);
        const int64_t target = label[row] < width ? label[row] : -1;
        table.softmax_gradient(row_of_logits, width, target, greatest[row], factor[row], target_gradient[row],
                               reinterpret_cast<Element*>(row_of_logits));
      }
    });
  });
  return gradient;
}

at::Tensor softmax_gradient_reference(const at::Tensor& logits, const at::Tensor& targets, const SoftmaxRows& rows,
                                      at::ScalarType type) {
  const auto [label, here] = targets_here(targets, logits.size(1));
  const at::Tensor probabilities = (logits - rows.greatest.unsqueeze(1)).exp() * rows.factors.unsqueeze(1);
  const at::Tensor at_target =
      at::where(here.unsqueeze(1), rows.target_gradients.unsqueeze(1), probabilities.gather(1, label));
  at::Tensor gradient = gradient_over(logits, type);
  gradient.copy_(probabilities.scatter(1, label, at_target));
  return gradient;
}

constexpr decltype(logit_statistics)::Implementation kStatistics[] = {{"loops", statistics_reason, statistics_loops},
                                                                      {"reference", nullptr, statistics_reference}};
constexpr decltype(combine_statistics)::Implementation kCombine[] = {{"loops", combine_reason, combine_loops},
                                                                     {"reference", nullptr, combine_reference}};
constexpr decltype(softmax_gradient)::Implementation kGradient[] = {{"loops", softmax_reason, softmax_gradient_loops},
                                                                    {"reference", nullptr, softmax_gradient_reference}};

}  // namespace

const decltype(logit_statistics) logit_statistics("logit_statistics", kStatistics);
const decltype(combine_statistics) combine_statistics("combine_statistics", kCombine);
const decltype(softmax_gradient) softmax_gradient("softmax_gradient", kGradient);
const decltype(cross_entropy) cross_entropy("cross_entropy", kCrossEntropy);

}  // namespace weft::kernel
