// Dims of sharded tensors, for operators whose dims are arguments.
#pragma once

#include <cstdint>
#include <vector>

#include "tensor/dtensor.h"

namespace weft::tensor {

// 0, 1, ...: each dim a factor of its own.
[[nodiscard]] std::vector<int> all_dims(const mesh::Spec& spec);
// `dim` counted from the front; negative ones count from the back of `dims` dims. Throws Error that names the tensor.
[[nodiscard]] int64_t dim_of(const DTensor& x, int64_t dim, int64_t dims);
[[nodiscard]] int64_t dim_of(const DTensor& x, int64_t dim);

}  // namespace weft::tensor
