#include "kernel/residual.h"

#include <ATen/ATen.h>

#include "base/check.h"
#include "kernel/parallel.h"
#include "kernel/rows.h"

namespace weft::kernel {
namespace {

std::string_view add_reason(const at::Tensor& x, const at::Tensor& branch, double) {
  const std::string_view reason = reason_against_rows(x, branch);
  if (!reason.empty()) return reason;
  return x.is_contiguous() && branch.is_contiguous() ? "" : "it is not contiguous";
}

at::Tensor add_loops(const at::Tensor& x, const at::Tensor& branch, double factor) {
  WEFT_CHECK(x.sizes() == branch.sizes());
  at::Tensor out = at::empty(x.sizes(), x.options());
  with_element(x.scalar_type(), [&](const auto& table, auto* element) {
    using Element = std::remove_pointer_t<decltype(element)>;
    const auto *left = data_of<Element>(x), *right = data_of<Element>(branch);
    auto* to = data_of<Element>(out);
    parallel_ranges(x.numel(), kParallelElements, [&](int64_t begin, int64_t end) {
      table.add_scaled(left + begin, right + begin, static_cast<float>(factor), end - begin, to + begin);
    });
  });
  return out;
}

at::Tensor add_reference(const at::Tensor& x, const at::Tensor& branch, double factor) {
  return (x.to(at::kFloat) + branch.to(at::kFloat) * factor).to(x.scalar_type());
}

std::string_view scale_reason(const at::Tensor& x, double) {
  const std::string_view reason = reason_against_rows(x);
  if (!reason.empty()) return reason;
  return x.is_contiguous() ? "" : "it is not contiguous";
}

void scale_loops(const at::Tensor& x, double factor) {
  with_element(x.scalar_type(), [&](const auto& table, auto* element) {
    using Element = std::remove_pointer_t<decltype(element)>;
    table.scale(data_of<Element>(x), static_cast<float>(factor), x.numel());
  });
}

void scale_reference(const at::Tensor& x, double factor) { x.mul_(factor); }

constexpr decltype(add_scaled)::Implementation kAdd[] = {{"loops", add_reason, add_loops},
                                                         {"reference", nullptr, add_reference}};
constexpr decltype(scale_in_place)::Implementation kScale[] = {{"loops", scale_reason, scale_loops},
                                                               {"reference", nullptr, scale_reference}};

}  // namespace

const decltype(add_scaled) add_scaled("add_scaled", kAdd);
const decltype(scale_in_place) scale_in_place("scale_in_place", kScale);

}  // namespace weft::kernel
