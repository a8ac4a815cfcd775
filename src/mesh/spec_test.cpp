#include "mesh/spec.h"

#include <thread>

#include <gtest/gtest.h>

#include "base/error.h"

namespace weft::mesh {
namespace {

constexpr Placement kReplicated{PlacementKind::kReplicate};
constexpr Placement kSummed{PlacementKind::kPartial};
constexpr Placement kSame{PlacementKind::kInvariant};
constexpr Placement kRanges{PlacementKind::kRagged};
constexpr Placement shard(int8_t dim) { return {PlacementKind::kShard, dim}; }

const Mesh kMesh{{{"dp", 2}, {"tp", 4}}};

Spec spec_of(std::vector<Placement> placements, std::vector<int64_t> shape) {
  return {.mesh = kMesh, .placements = std::move(placements), .shape = std::move(shape)};
}

TEST(Placement, GradientFollowsFromForward) {
  EXPECT_EQ(gradient_placement(shard(1)), shard(1));
  EXPECT_EQ(gradient_placement(kReplicated), kSummed);
  EXPECT_EQ(gradient_placement(kSummed), kReplicated);
  EXPECT_EQ(gradient_placement(kSame), kSame);
  EXPECT_EQ(gradient_placement(kRanges), kRanges);
}

TEST(Placement, GradientOfGradientIsForward) {
  for (const Placement placement : {shard(0), shard(3), kReplicated, kSummed, kSame, kRanges}) {
    EXPECT_EQ(gradient_placement(gradient_placement(placement)), placement);
  }
}

TEST(Mesh, RanksAreTheProductOfAxes) {
  EXPECT_EQ(kMesh.ranks(), 8);
  EXPECT_EQ(Mesh{}.ranks(), 1);
}

TEST(Spec, EqualSpecsAreOneObject) {
  const Spec* first = intern(spec_of({shard(0), kSame}, {8, 4}));
  EXPECT_EQ(first, intern(spec_of({shard(0), kSame}, {8, 4})));
  EXPECT_NE(first, intern(spec_of({shard(1), kSame}, {8, 4})));
  EXPECT_NE(first, intern(spec_of({shard(0), kReplicated}, {8, 4})));
  EXPECT_NE(first, intern(spec_of({shard(0), kSame}, {8, 5})));
  Spec half = spec_of({shard(0), kSame}, {8, 4});
  half.element_type = ElementType::kBFloat16;
  EXPECT_NE(first, intern(half));
  Spec other_mesh = spec_of({shard(0), kSame}, {8, 4});
  other_mesh.mesh.axes[0].size = 3;
  EXPECT_NE(first, intern(other_mesh));
}

TEST(Spec, OrderOfAxesThatCutOneDimMatters) {
  const Spec* mesh_order = intern(spec_of({shard(0), shard(0)}, {8, 4}));
  EXPECT_EQ(mesh_order->shard_order, (std::vector<int8_t>{0, 1}));
  Spec reversed = spec_of({shard(0), shard(0)}, {8, 4});
  reversed.shard_order = {1, 0};
  EXPECT_NE(mesh_order, intern(reversed));
}

TEST(Spec, OrderOfAxesThatCutDifferentDimsDoesNotMatter) {
  Spec one = spec_of({shard(1), shard(0)}, {8, 4});
  Spec two = one;
  one.shard_order = {0, 1};
  two.shard_order = {1, 0};
  EXPECT_EQ(intern(one), intern(two));
  EXPECT_EQ(intern(one), intern(spec_of({shard(1), shard(0)}, {8, 4})));
}

TEST(Spec, PlainTensorsNeedNoMesh) {
  const Spec* plain = intern({.shape = {3}});
  EXPECT_EQ(plain->text(), "f32[3] {}");
}

TEST(Spec, ThreadsGetTheSameObject) {
  std::vector<const Spec*> seen(8);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < seen.size(); ++i) {
    threads.emplace_back([&seen, i] {
      for (int64_t size = 1; size < 100; ++size) seen[i] = intern(spec_of({shard(0), kSummed}, {size, 77}));
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Spec* spec : seen) EXPECT_EQ(spec, seen[0]);
}

TEST(Spec, MessagesNameTensorAndAxis) {
  EXPECT_EQ(intern(spec_of({shard(0), kSummed}, {12, 64}))->text(), "f32[12, 64] {dp: shard(0), tp: partial}");
}

Spec ragged(std::vector<int64_t> ends) {
  Spec spec = spec_of({kRanges, kSame}, {5, 4});
  spec.ragged_ends = std::move(ends);
  return spec;
}

TEST(Spec, RaggedRangesFillTheTensor) {
  EXPECT_NE(intern(ragged({7, 20})), intern(ragged({8, 20})));
  EXPECT_EQ(intern(ragged({20, 20})), intern(ragged({20, 20})));
  EXPECT_THROW((void)intern(ragged({7, 19})), Error);
  EXPECT_THROW((void)intern(ragged({21, 20})), Error);
  EXPECT_THROW((void)intern(ragged({-1, 20})), Error);
  EXPECT_THROW((void)intern(ragged({20})), Error);
  Spec twice = ragged({7, 20});
  twice.placements[1] = kRanges;
  EXPECT_THROW((void)intern(twice), Error);
  Spec beside = ragged({7, 20});
  beside.placements[1] = shard(0);
  EXPECT_THROW((void)intern(beside), Error);
}

TEST(Spec, UnitsMatterWhereADimIsCut) {
  Spec units = spec_of({shard(0), kSame}, {12, 64});
  units.units = {5, 0};
  EXPECT_EQ(intern(units)->text(), "f32[12 in 5 units, 64] {dp: shard(0), tp: invariant}");
  EXPECT_NE(intern(units), intern(spec_of({shard(0), kSame}, {12, 64})));
  Spec elements = units;
  elements.units = {12, 8};
  EXPECT_EQ(intern(elements), intern(spec_of({shard(0), kSame}, {12, 64})));
  elements.units = {4, 0};  // two units of three make six elements
  EXPECT_EQ(intern(elements), intern(spec_of({shard(0), kSame}, {12, 64})));
  Spec few = units;
  few.units = {4};
  EXPECT_THROW((void)intern(few), Error);
  few.units = {4, -1};
  EXPECT_THROW((void)intern(few), Error);
}

TEST(Spec, WrongSpecsAreRefused) {
  EXPECT_THROW((void)intern(spec_of({shard(0)}, {8})), Error);
  EXPECT_THROW((void)intern(spec_of({shard(1), kSame}, {8})), Error);
  EXPECT_THROW((void)intern(spec_of({shard(-1), kSame}, {8})), Error);
  EXPECT_THROW((void)intern(spec_of({kSame, kSame}, {-8})), Error);
  EXPECT_THROW((void)intern(spec_of({{PlacementKind::kPartial, 0}, kSame}, {8})), Error);
  Spec order = spec_of({shard(0), kSame}, {8});
  order.shard_order = {1};
  EXPECT_THROW((void)intern(order), Error);
  order.shard_order = {0, 0};
  EXPECT_THROW((void)intern(order), Error);
  Spec ranges = spec_of({shard(0), kSame}, {8});
  ranges.ragged_ends = {4, 8};
  EXPECT_THROW((void)intern(ranges), Error);
  Spec name_twice = spec_of({shard(0), kSame}, {8});
  name_twice.mesh.axes[1].name = "dp";
  EXPECT_THROW((void)intern(name_twice), Error);
}

}  // namespace
}  // namespace weft::mesh
