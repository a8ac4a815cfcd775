#include "tensor/collectives.h"

#include <numeric>
#include <vector>

#include <ATen/ATen.h>

#include "base/check.h"

namespace weft::tensor {
namespace {

// Elements of each member's part of a tensor of this shape.
std::vector<int64_t> part_counts(at::IntArrayRef shape, int64_t dim, std::span<const int64_t> sizes) {
  int64_t others = 1;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (static_cast<int64_t>(i) != dim) others *= shape[i];
  }
  std::vector<int64_t> counts;
  for (const int64_t size : sizes) counts.push_back(size * others);
  return counts;
}

std::vector<int64_t> with_size(at::IntArrayRef shape, int64_t dim, int64_t size) {
  std::vector<int64_t> changed = shape.vec();
  changed[static_cast<size_t>(dim)] = size;
  return changed;
}

// The parts along `dim`, each contiguous, behind each other.
at::Tensor packed(const at::Tensor& whole, int64_t dim, std::span<const int64_t> sizes) {
  if (dim == 0) return whole.contiguous();
  std::vector<at::Tensor> parts;
  for (const at::Tensor& part : whole.split_with_sizes(at::IntArrayRef(sizes.data(), sizes.size()), dim)) {
    parts.push_back(part.reshape({-1}));
  }
  return at::cat(parts);
}

}  // namespace

mesh::ElementType element_type(at::ScalarType type) {
  switch (type) {
    case at::kFloat:
      return mesh::ElementType::kFloat32;
    case at::kBFloat16:
      return mesh::ElementType::kBFloat16;
    case at::kHalf:
      return mesh::ElementType::kFloat16;
    case at::kDouble:
      return mesh::ElementType::kFloat64;
    case at::kLong:
      return mesh::ElementType::kInt64;
    case at::kInt:
      return mesh::ElementType::kInt32;
    case at::kByte:
      return mesh::ElementType::kUInt8;
    default:
      WEFT_CHECK(false);
  }
}

at::ScalarType scalar_type(mesh::ElementType type) {
  for (const at::ScalarType scalar : {at::kFloat, at::kBFloat16, at::kHalf, at::kDouble, at::kLong, at::kInt}) {
    if (element_type(scalar) == type) return scalar;
  }
  return at::kByte;
}

comm::Source source_of(const at::Tensor& tensor) { return target_of(tensor).source(); }

comm::Target target_of(const at::Tensor& tensor) {
  WEFT_CHECK(tensor.is_contiguous() && tensor.device().is_cpu());
  return {tensor.data_ptr(), tensor.numel(), element_type(tensor.scalar_type())};
}

void all_reduce_(const at::Tensor& tensor, comm::Communicator& group, comm::Reduction reduction,
                 std::string_view what) {
  group.all_reduce(target_of(tensor), reduction, what)->wait();
}

at::Tensor all_gather_dim(const at::Tensor& local, int64_t dim, std::span<const int64_t> sizes,
                          comm::Communicator& group, std::string_view what) {
  WEFT_CHECK(local.size(dim) == sizes[static_cast<size_t>(group.rank())]);
  const std::vector<int64_t> counts = part_counts(local.sizes(), dim, sizes);
  const int64_t total = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
  const at::Tensor own = local.contiguous();
  const at::Tensor all = at::empty(with_size(local.sizes(), dim, total), local.options());
  group.all_gather(source_of(own), target_of(all), counts, what)->wait();
  if (dim == 0) return all;
  std::vector<at::Tensor> parts;
  int64_t begin = 0;
  for (size_t rank = 0; rank < sizes.size(); ++rank) {
    parts.push_back(all.view({-1}).narrow(0, begin, counts[rank]).view(with_size(local.sizes(), dim, sizes[rank])));
    begin += counts[rank];
  }
  return at::cat(parts, dim);
}

at::Tensor reduce_scatter_dim(const at::Tensor& partial, int64_t dim, std::span<const int64_t> sizes,
                              comm::Communicator& group, std::string_view what) {
  WEFT_CHECK(partial.size(dim) == std::accumulate(sizes.begin(), sizes.end(), int64_t{0}));
  const std::vector<int64_t> counts = part_counts(partial.sizes(), dim, sizes);
  const at::Tensor parts = packed(partial, dim, sizes);
  const int64_t own_size = sizes[static_cast<size_t>(group.rank())];
  const at::Tensor own = at::empty(with_size(partial.sizes(), dim, own_size), partial.options());
  group.reduce_scatter(source_of(parts), target_of(own), counts, comm::Reduction::kSum, what)->wait();
  return own;
}

}  // namespace weft::tensor
