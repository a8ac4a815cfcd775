#include "tensor/collectives.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "comm/threads.h"

namespace weft::tensor {
namespace {

at::Tensor numbers(int rank, at::IntArrayRef shape) {
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  return at::sin(at::arange(count, at::kFloat) * (rank + 1)).view(shape);
}

TEST(Collectives, PartsOfAnyDimAreGatheredAndAdded) {
  const std::vector<int64_t> sizes = {3, 0, 2};
  for (int64_t dim = 0; dim < 3; ++dim) {
    std::vector<int64_t> shape = {2, 4, 5};
    shape[static_cast<size_t>(dim)] = 5;
    const at::Tensor whole = numbers(7, shape);
    const at::Tensor sum = numbers(0, shape) + numbers(1, shape) + numbers(2, shape);
    comm::run_ranks(3, [&](comm::World& world) {
      const auto group = world.make_group(std::vector<int>{0, 1, 2}, "tp");
      const auto rank = static_cast<size_t>(world.rank());
      const at::Tensor part = whole.split_with_sizes(sizes, dim)[rank];
      EXPECT_TRUE(at::equal(all_gather_dim(part, dim, sizes, *group, "parts"), whole));
      const at::Tensor own = reduce_scatter_dim(numbers(world.rank(), shape), dim, sizes, *group, "sums");
      EXPECT_TRUE(at::equal(own, sum.split_with_sizes(sizes, dim)[rank]));
      const at::Tensor mine = numbers(world.rank(), shape);
      all_reduce_(mine, *group, comm::Reduction::kSum, "sum");
      EXPECT_TRUE(at::equal(mine, sum));
    });
  }
}

}  // namespace
}  // namespace weft::tensor
