#include "tensor/test_shards.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "mesh/shard.h"
#include "tensor/collectives.h"

namespace weft::tensor {

at::Tensor whole_numbers(at::IntArrayRef shape, int64_t seed) {
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  const at::Tensor index = at::arange(count, at::kDouble) + static_cast<double>(seed * 1009);
  return at::round(8 * at::sin(index * 12.9898)).view(shape);
}

at::Tensor part_for(const at::Tensor& whole, const mesh::Spec& spec, int rank, int64_t seed) {
  const std::vector<int> place = mesh::coordinates_of(spec.mesh, rank);
  at::Tensor part = whole;
  if (mesh::ragged_axis(spec) >= 0) {
    const Range range = mesh::ragged_range(spec, place);
    part = whole.contiguous().view({-1}).narrow(0, range.begin, range.size());
  } else {
    for (int64_t dim = 0; dim < whole.dim(); ++dim) {
      const Range range = mesh::shard_range(spec, place, dim);
      part = part.narrow(dim, range.begin, range.size());
    }
  }
  part = part.contiguous();
  int64_t terms = 1, own = 0;
  for (size_t axis = 0; axis < place.size(); ++axis) {
    if (spec.placements[axis] != kP) continue;
    terms *= spec.mesh.axes[axis].size;
    own = own * spec.mesh.axes[axis].size + place[axis];
  }
  const auto term = [&](int64_t index) {
    return whole_numbers(part.sizes(), seed + 31 * index).to(part.scalar_type());
  };
  if (terms == 1) return part.clone();
  if (own > 0) return term(own);
  for (int64_t index = 1; index < terms; ++index) part = part - term(index);
  return part;
}

double product(const at::Tensor& value, const at::Tensor& gradient, const mesh::Spec& spec,
               const comm::Groups& groups) {
  at::Tensor sum = (value * gradient).sum().to(at::kDouble);
  for (size_t axis = 0; axis < spec.placements.size(); ++axis) {
    if (spec.placements[axis] == kI && groups.device_mesh().coordinates()[axis] > 0) sum = at::zeros_like(sum);
  }
  const mesh::AxisSet all = mesh::axis_bit(spec.mesh.axes.size()) - 1;
  all_reduce_(sum, groups.group(all), comm::Reduction::kSum, "product");
  return sum.item<double>();
}

TEST(TestShards, PartialPartsAddUpToTheWhole) {
  const mesh::Spec* spec = mesh::intern({.mesh = {{{"dp", 2}, {"tp", 3}}}, .placements = {kP, kP}, .shape = {3, 2}});
  const at::Tensor whole = whole_numbers({3, 2}, 1);
  at::Tensor sum = at::zeros_like(whole);
  for (int rank = 0; rank < 6; ++rank) sum += part_for(whole, *spec, rank, 5);
  EXPECT_TRUE(at::equal(sum, whole));
}

}  // namespace weft::tensor
