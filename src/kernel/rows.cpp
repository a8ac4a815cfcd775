#include "kernel/rows.h"

#include <ATen/ATen.h>

#include "base/check.h"

namespace weft::kernel {
namespace {

// The number of trailing dims (the last one included) that lie next to each other.
int64_t contiguous_trailing_dims(const at::Tensor& tensor, int64_t& elements) {
  int64_t dims = 0;
  elements = 1;
  for (int64_t dim = tensor.dim() - 1; dim >= 0; --dim) {
    if (tensor.size(dim) != 1 && tensor.stride(dim) != elements) break;
    elements *= tensor.size(dim);
    ++dims;
  }
  return dims;
}

}  // namespace

std::string_view reason_against_rows(const at::Tensor& tensor) {
  if (!tensor.device().is_cpu()) return "it is not on the CPU";
  if (tensor.scalar_type() != at::kFloat && tensor.scalar_type() != at::kBFloat16)
    return "it is neither float nor bfloat16";
  if (tensor.dim() == 0) return "it has no rows";
  if (tensor.numel() == 0) return {};
  int64_t elements = 0;
  const int64_t dims = contiguous_trailing_dims(tensor, elements);
  if (dims == 0) return "its rows are not contiguous";
  int64_t places = 1;
  const int64_t last = tensor.dim() - dims - 1;  // the last of the dims that count places
  for (int64_t dim = last; dim >= 0; --dim) {
    if (tensor.size(dim) != 1 && tensor.stride(dim) != tensor.stride(last) * places)
      return "its rows are not evenly spaced";
    places *= tensor.size(dim);
  }
  return {};
}

RowLayout row_layout(const at::Tensor& tensor) {
  RowLayout rows;
  rows.width = tensor.size(-1);
  rows.stride = rows.width;
  if (tensor.numel() == 0) return rows;  // its strides mean nothing
  int64_t elements = 0;
  const int64_t dims = contiguous_trailing_dims(tensor, elements);
  if (dims == tensor.dim()) {
    rows.outer = tensor.numel() / rows.width;
    return rows;
  }
  rows.inner = elements / rows.width;
  rows.outer = tensor.numel() / elements;
  const int64_t last = tensor.dim() - dims - 1;
  rows.stride = tensor.stride(last);
  return rows;
}

RowLayout regrouped(const RowLayout& rows, int64_t inner) {
  if (rows.inner == inner) return rows;
  WEFT_CHECK(rows.inner == 1 && rows.stride == rows.width && rows.outer % inner == 0);
  return {rows.outer / inner, inner, rows.width, rows.width * inner};
}

}  // namespace weft::kernel
