#include "tensor/redistribute.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "comm/recorder.h"
#include "comm/threads.h"
#include "mesh/shard.h"
#include "tensor/collectives.h"
#include "tensor/test_shards.h"

namespace weft::tensor {
namespace {

using mesh::Mesh;
using mesh::Spec;

// All ways to place a tensor on a mesh.
std::vector<const Spec*> all_specs(const Mesh& mesh, std::vector<int64_t> shape) {
  std::vector<mesh::Placement> kinds = {kR, kI, kP};
  for (size_t dim = 0; dim < shape.size(); ++dim) kinds.push_back(shard(static_cast<int8_t>(dim)));
  std::vector<std::vector<mesh::Placement>> chosen = {{}};
  for (size_t axis = 0; axis < mesh.axes.size(); ++axis) {
    std::vector<std::vector<mesh::Placement>> longer;
    for (const auto& begun : chosen) {
      for (const mesh::Placement kind : kinds) {
        longer.push_back(begun);
        longer.back().push_back(kind);
      }
    }
    chosen = longer;
  }
  std::vector<const Spec*> specs;
  for (const auto& placements : chosen) {
    specs.push_back(mesh::intern(
        {.mesh = mesh, .placements = placements, .shape = shape, .element_type = mesh::ElementType::kFloat64}));
  }
  return specs;
}

// The value arrives, and the conjugate is the adjoint: <A x, y> = <x, A^T y>.
void check_pair(const Spec& from, const Spec& to, const comm::Groups& groups) {
  const int rank = groups.device_mesh().rank();
  const std::string pair = from.text() + " -> " + to.text();
  const at::Tensor whole = whole_numbers(from.shape, 1), gradient = whole_numbers(from.shape, 2);
  const at::Tensor before = part_for(whole, from, rank, 5);
  const at::Tensor after = redistribute(before, from, to, groups, pair);
  EXPECT_TRUE(after.is_contiguous());
  const std::vector<int64_t> shape = mesh::local_shape(to, groups.device_mesh().coordinates());
  ASSERT_EQ(after.sizes(), at::IntArrayRef(shape)) << pair;
  mesh::AxisSet partial = 0;
  for (size_t axis = 0; axis < to.placements.size(); ++axis) {
    if (to.placements[axis] == kP) partial |= mesh::axis_bit(axis);
  }
  at::Tensor value = after.clone();
  if (partial != 0) all_reduce_(value, groups.group(partial), comm::Reduction::kSum, pair);
  Spec summed = to;
  for (mesh::Placement& placement : summed.placements) {
    if (placement == kP) placement = kR;
  }
  EXPECT_TRUE(at::equal(value, part_for(whole, summed, rank, 5))) << pair << ", rank " << rank;

  const at::Tensor after_gradient = part_for(gradient, *mesh::gradient_spec(to), rank, 7);
  const at::Tensor before_gradient = redistribute_gradient(after_gradient, from, to, groups, pair);
  EXPECT_EQ(product(after, after_gradient, to, groups), product(before, before_gradient, from, groups)) << pair;
}

void check_all_pairs(const Mesh& mesh, const std::vector<std::vector<int64_t>>& shapes,
                     const std::vector<const Spec*>& more = {}) {
  comm::run_ranks(static_cast<int>(mesh.ranks()), [&](comm::World& world) {
    const comm::Groups groups(world, mesh);
    for (const std::vector<int64_t>& shape : shapes) {
      std::vector<const Spec*> specs = all_specs(mesh, shape);
      for (const Spec* spec : more) {
        if (spec->shape == shape) specs.push_back(spec);
      }
      for (const Spec* from : specs) {
        for (const Spec* to : specs) check_pair(*from, *to, groups);
      }
    }
  });
}

Spec double_spec(const Mesh& mesh, std::vector<mesh::Placement> placements, std::vector<int64_t> shape) {
  return {.mesh = mesh,
          .placements = std::move(placements),
          .shape = std::move(shape),
          .element_type = mesh::ElementType::kFloat64};
}

// Even, uneven and empty parts, ranges and units.
std::vector<const Spec*> special_specs(const Mesh& mesh, int64_t ranks) {
  Spec ragged = double_spec(mesh, {{mesh::PlacementKind::kRagged}}, {5, 4});
  ragged.ragged_ends = std::vector<int64_t>(static_cast<size_t>(ranks), 20);
  ragged.ragged_ends[0] = 7;
  Spec other = ragged;
  other.ragged_ends[0] = 0;
  Spec units = double_spec(mesh, {shard(0)}, {5, 4});
  units.units = {3, 0};
  return {mesh::intern(ragged), mesh::intern(other), mesh::intern(units)};
}

TEST(Redistribute, EveryPairOnTwoRanks) {
  const Mesh mesh{{{"tp", 2}}};
  check_all_pairs(mesh, {{6, 4}, {5, 4}, {1, 3}}, special_specs(mesh, 2));
}

TEST(Redistribute, EveryPairOnThreeRanks) {
  const Mesh mesh{{{"tp", 3}}};
  check_all_pairs(mesh, {{6, 3}, {5, 4}, {2, 1}}, special_specs(mesh, 3));
}

TEST(Redistribute, EveryPairOnTwoTimesTwoRanks) {
  const Mesh mesh{{{"dp", 2}, {"tp", 2}}};
  Spec swapped = double_spec(mesh, {shard(0), shard(0)}, {5, 3});
  swapped.shard_order = {1, 0};
  Spec units = double_spec(mesh, {shard(0), shard(0)}, {5, 3});
  units.units = {3, 0};
  check_all_pairs(mesh, {{5, 3}}, {mesh::intern(swapped), mesh::intern(units)});
}

TEST(Redistribute, OneCollectiveForSeveralAxes) {
  const Mesh mesh{{{"dp", 2}, {"cp", 1}, {"tp", 2}}};
  const Spec* from = mesh::intern(double_spec(mesh, {kP, kI, kP}, {5, 3}));
  const Spec* to = mesh::intern(double_spec(mesh, {kI, kI, kI}, {5, 3}));
  comm::Recorder recorder;
  comm::run_ranks(4, [&](comm::World& world) {
    const auto counted = comm::recorded(world, recorder);
    const comm::Groups groups(*counted, mesh);
    (void)redistribute(part_for(whole_numbers({5, 3}, 1), *from, world.rank(), 5), *from, *to, groups, "gradients");
  });
  const comm::Traffic expected = {{{"dp+tp", comm::Operation::kAllReduce, "gradients"}, {4, 4 * 15 * 8}}};
  EXPECT_EQ(comm::difference(expected, recorder.traffic()), "");
}

TEST(Redistribute, AWrongPartIsNamed) {
  const Mesh mesh{{{"tp", 2}}};
  comm::run_ranks(2, [&](comm::World& world) {
    const comm::Groups groups(world, mesh);
    const Spec* from = mesh::intern(double_spec(mesh, {shard(0)}, {5, 3}));
    try {
      (void)redistribute(at::zeros({5, 3}, at::kDouble), *from, *from, groups, "weights");
      ADD_FAILURE();
    } catch (const Error& error) {
      const std::string rows = world.rank() == 0 ? "3" : "2";
      EXPECT_EQ(std::string(error.what()), "weights: rank " + std::to_string(world.rank()) +
                                               " holds f64[5, 3] of f64[5, 3] {tp: shard(0)}, which should be f64[" +
                                               rows + ", 3]");
    }
  });
}

}  // namespace
}  // namespace weft::tensor
