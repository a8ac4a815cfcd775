// From tensors to the raw rows that the CPU loops take.
#pragma once

#include <string_view>

#include <ATen/core/Tensor.h>

#include "kernel/loops/loops.h"

namespace weft::kernel {

// Empty if the loops can work on a tensor: on the CPU, float or bfloat16, its rows (last dim) contiguous, and the
// places before them evenly spaced: a contiguous tensor, or [.., heads, head_dim] inside a wider one.
std::string_view reason_against_rows(const at::Tensor& tensor);

// How the rows of such a tensor lie.
RowLayout row_layout(const at::Tensor& tensor);

// The same rows with `inner` of them at each place, if they lie that way too (a contiguous tensor's do).
RowLayout regrouped(const RowLayout& rows, int64_t inner);

// Empty if all are fit for the loops and of one type.
template <typename... Tensors>
std::string_view reason_against_rows(const at::Tensor& first, const Tensors&... others) {
  std::string_view reason = reason_against_rows(first);
  const auto add = [&](const at::Tensor& other) {
    if (reason.empty()) reason = reason_against_rows(other);
    if (reason.empty() && other.scalar_type() != first.scalar_type()) reason = "its tensors are of several types";
  };
  (add(others), ...);
  return reason;
}

// Calls body(loops of the type, a null pointer of the type).
template <typename Body>
auto with_element(at::ScalarType type, Body&& body) {
  if (type == at::kFloat) return body(loops().float32, static_cast<float*>(nullptr));
  return body(loops().bfloat16, static_cast<BFloat16*>(nullptr));
}

template <typename Element>
Element* data_of(const at::Tensor& tensor) {
  return static_cast<Element*>(tensor.data_ptr());
}

}  // namespace weft::kernel
