#include "kernel/cross_entropy.h"

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

}  // namespace

const decltype(cross_entropy) cross_entropy("cross_entropy", kCrossEntropy);

}  // namespace weft::kernel
