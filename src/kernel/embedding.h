// Rows of a table by index, and their gradient, without a gradient of the table's size.
#pragma once

#include <ATen/core/Tensor.h>

#include "kernel/operator.h"

namespace weft::kernel {

// (table [rows, width], indices int64 [..], factor): factor * table[indices], [.., width]. Indices are within the
// table.
extern const Operator<at::Tensor(const at::Tensor&, const at::Tensor&, double)> gather_rows;

// (out, table, indices): out [.., width] += table[indices].
extern const Operator<void(const at::Tensor&, const at::Tensor&, const at::Tensor&)> add_rows;

// (dtable fp32, dy [.., width], indices, factor): dtable[indices] += factor * dy, in the order of the indices.
extern const Operator<void(const at::Tensor&, const at::Tensor&, const at::Tensor&, double)> scatter_add_rows;

}  // namespace weft::kernel
