// The communicator's calls on tensors: parts of any dim, of any length.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include <ATen/core/Tensor.h>

#include "comm/communicator.h"

namespace weft::tensor {

[[nodiscard]] mesh::ElementType element_type(at::ScalarType type);
[[nodiscard]] at::ScalarType scalar_type(mesh::ElementType type);
// The memory of a contiguous tensor on the CPU (WEFT_CHECK).
[[nodiscard]] comm::Source source_of(const at::Tensor& tensor);
[[nodiscard]] comm::Target target_of(const at::Tensor& tensor);

// In place; contiguous.
void all_reduce_(const at::Tensor& tensor, comm::Communicator& group, comm::Reduction reduction, std::string_view what);

// The members' tensors behind each other along `dim`, of which member r's has sizes[r]; other dims are alike.
[[nodiscard]] at::Tensor all_gather_dim(const at::Tensor& local, int64_t dim, std::span<const int64_t> sizes,
                                        comm::Communicator& group, std::string_view what);

// The sum of the members' tensors, of which this one keeps its part: sizes[rank] along `dim`, behind the parts of the
// members before it.
[[nodiscard]] at::Tensor reduce_scatter_dim(const at::Tensor& partial, int64_t dim, std::span<const int64_t> sizes,
                                            comm::Communicator& group, std::string_view what);

}  // namespace weft::tensor
