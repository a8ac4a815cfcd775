#include "mesh/shard.h"

#include <gtest/gtest.h>

#include "mesh/device_mesh.h"

namespace weft::mesh {
namespace {

constexpr Placement kReplicated{PlacementKind::kReplicate};
constexpr Placement shard(int8_t dim) { return {PlacementKind::kShard, dim}; }
const Mesh kMesh{{{"a", 2}, {"b", 3}}};

const Spec* spec_of(std::vector<Placement> placements, std::vector<int64_t> shape, std::vector<int64_t> units = {},
                    std::vector<int8_t> order = {}) {
  return intern({.mesh = kMesh,
                 .placements = std::move(placements),
                 .shard_order = std::move(order),
                 .shape = std::move(shape),
                 .units = std::move(units)});
}

std::vector<Range> ranges(const Spec* spec, int64_t dim) {
  std::vector<Range> ranges;
  for (int rank = 0; rank < 6; ++rank) ranges.push_back(shard_range(*spec, coordinates_of(kMesh, rank), dim));
  return ranges;
}

TEST(Shard, OneAxisCutsNearEqually) {
  EXPECT_EQ(ranges(spec_of({kReplicated, shard(0)}, {5, 2}), 0),
            (std::vector<Range>{{0, 2}, {2, 4}, {4, 5}, {0, 2}, {2, 4}, {4, 5}}));
  EXPECT_EQ(ranges(spec_of({kReplicated, shard(0)}, {2, 2}), 0),
            (std::vector<Range>{{0, 1}, {1, 2}, {2, 2}, {0, 1}, {1, 2}, {2, 2}}));
}

// 10 elements: the outer axis has two fives, the inner one cuts each; the other way round, 4 + 3 + 3 are cut in halves.
TEST(Shard, TheOrderOfAxesThatCutOneDim) {
  EXPECT_EQ(ranges(spec_of({shard(0), shard(0)}, {10}), 0),
            (std::vector<Range>{{0, 2}, {2, 4}, {4, 5}, {5, 7}, {7, 9}, {9, 10}}));
  EXPECT_EQ(ranges(spec_of({shard(0), shard(0)}, {10}, {}, {1, 0}), 0),
            (std::vector<Range>{{0, 2}, {4, 6}, {7, 9}, {2, 4}, {6, 7}, {9, 10}}));
}

// 10 elements in 4 units of 3, 3, 2, 2: three ranks hold 2, 1 and 1 of them.
TEST(Shard, UnitsStayWhole) {
  EXPECT_EQ(ranges(spec_of({kReplicated, shard(0)}, {10}, {4}), 0),
            (std::vector<Range>{{0, 6}, {6, 8}, {8, 10}, {0, 6}, {6, 8}, {8, 10}}));
  for (int rank = 0; rank < 6; ++rank) {
    EXPECT_EQ(shard_range(*spec_of({kReplicated, shard(0)}, {10}, {4}), coordinates_of(kMesh, rank), 0),
              cut(10, 4, 3, rank % 3));
  }
}

TEST(Shard, EveryElementHasOneHolder) {
  for (const Spec* spec : {spec_of({shard(0), shard(0)}, {7, 5}), spec_of({shard(1), shard(0)}, {7, 5}),
                           spec_of({shard(1), shard(1)}, {3, 4}, {0, 3}, {1, 0}), spec_of({shard(0), shard(1)}, {1, 2}),
                           spec_of({shard(2), shard(0)}, {3, 2, 5})}) {
    std::vector<int> holders(static_cast<size_t>(element_count(spec->shape)));
    for (int rank = 0; rank < 6; ++rank) {
      const std::vector<int> coordinates = coordinates_of(kMesh, rank);
      const int64_t count = element_count(local_shape(*spec, coordinates));
      for (int64_t local = 0; local < count; ++local) {
        ++holders[static_cast<size_t>(global_index(*spec, coordinates, local))];
      }
    }
    EXPECT_EQ(holders, std::vector<int>(holders.size(), 1)) << spec->text();
  }
}

TEST(Shard, RunsAreTheLocalElementsInOrder) {
  for (const Spec* spec : {spec_of({shard(0), shard(0)}, {7, 5}), spec_of({shard(1), shard(0)}, {7, 5}),
                           spec_of({kReplicated, kReplicated}, {2, 3}), spec_of({shard(1), kReplicated}, {2, 3, 4}),
                           spec_of({shard(2), shard(0)}, {3, 2, 5}), spec_of({shard(0), kReplicated}, {1})}) {
    for (int rank = 0; rank < 6; ++rank) {
      const std::vector<int> coordinates = coordinates_of(kMesh, rank);
      int64_t local = 0;
      for (const mesh::Run& run : runs_of(*spec, coordinates)) {
        EXPECT_EQ(run.local, local);
        for (int64_t i = 0; i < run.size; ++i, ++local) {
          EXPECT_EQ(run.global + i, global_index(*spec, coordinates, local)) << spec->text();
        }
      }
      EXPECT_EQ(local, element_count(local_shape(*spec, coordinates)));
    }
  }
  EXPECT_EQ(runs_of(*spec_of({kReplicated, kReplicated}, {4, 6}), coordinates_of(kMesh, 0)).size(), 1U);
}

TEST(Shard, RaggedRangesAreRowMajor) {
  const Spec* spec = intern({.mesh = kMesh,
                             .placements = {kReplicated, {PlacementKind::kRagged}},
                             .ragged_ends = {3, 3, 8},
                             .shape = {2, 4}});
  EXPECT_EQ(ragged_range(*spec, std::vector<int>{0, 0}), (Range{0, 3}));
  EXPECT_EQ(local_shape(*spec, std::vector<int>{1, 1}), (std::vector<int64_t>{0}));
  EXPECT_EQ(runs_of(*spec, std::vector<int>{1, 2}), (std::vector<mesh::Run>{{0, 3, 5}}));
  EXPECT_EQ(global_index(*spec, std::vector<int>{1, 2}, 4), 7);
}

TEST(Shard, TheGradientOfAGradientIsTheTensors) {
  const Spec* spec = spec_of({kReplicated, shard(0)}, {10}, {4});
  EXPECT_EQ(gradient_spec(*spec)->text(), "f32[10 in 4 units] {a: partial, b: shard(0)}");
  EXPECT_EQ(gradient_spec(*gradient_spec(*spec)), spec);
}

}  // namespace
}  // namespace weft::mesh
