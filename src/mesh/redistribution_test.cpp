#include "mesh/redistribution.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace weft::mesh {
namespace {

constexpr Placement kR{PlacementKind::kReplicate};
constexpr Placement kI{PlacementKind::kInvariant};
constexpr Placement kP{PlacementKind::kPartial};
constexpr Placement shard(int8_t dim) { return {PlacementKind::kShard, dim}; }
const Mesh kMesh{{{"dp", 2}, {"cp", 2}, {"tp", 2}}};

const Spec* spec_of(std::vector<Placement> placements, std::vector<int8_t> order = {},
                    std::vector<int64_t> units = {}) {
  return intern({.mesh = kMesh,
                 .placements = std::move(placements),
                 .shard_order = std::move(order),
                 .shape = {64, 48, 32},
                 .units = std::move(units)});
}

std::string plan(const Spec* from, const Spec* to) { return text(plan_redistribution(*from, *to)); }

TEST(Redistribution, OneAxis) {
  const auto one = [](Placement from, Placement to) { return plan(spec_of({kI, kI, from}), spec_of({kI, kI, to})); };
  EXPECT_EQ(one(shard(0), kR), "all-gather over tp");
  EXPECT_EQ(one(shard(0), kI), "all-gather over tp");
  EXPECT_EQ(one(shard(0), kP), "zero-fill over tp");
  EXPECT_EQ(one(shard(0), shard(1)), "all-to-all over tp");
  EXPECT_EQ(one(kP, shard(1)), "reduce-scatter over tp");
  EXPECT_EQ(one(kP, kR), "all-reduce over tp");
  EXPECT_EQ(one(kP, kI), "all-reduce over tp");
  EXPECT_EQ(one(kI, kR), "relabel over tp");
  EXPECT_EQ(one(kR, kI), "relabel over tp");
  EXPECT_EQ(one(kR, kP), "mask over tp");
  EXPECT_EQ(one(kI, shard(2)), "slice over tp");
  EXPECT_EQ(one(kP, kP), "");
}

TEST(Redistribution, EqualTransitionsAreMergedAlsoWhereNotAdjacent) {
  EXPECT_EQ(plan(spec_of({kP, kI, kP}), spec_of({kI, kI, kI})), "all-reduce over dp+tp");
  EXPECT_EQ(plan(spec_of({kP, kP, kP}), spec_of({kI, kR, kI})), "all-reduce over dp+cp+tp");
  EXPECT_EQ(plan(spec_of({kP, shard(1), kP}), spec_of({shard(0), shard(1), shard(0)})), "reduce-scatter over dp+tp");
  EXPECT_EQ(plan(spec_of({shard(0), kI, shard(0)}), spec_of({kR, kI, kR})), "all-gather over dp+tp");
  EXPECT_EQ(plan(spec_of({shard(0), kI, shard(2)}), spec_of({kR, kI, kR})), "all-gather over dp+tp");
}

// A reduction after the slice moves less, a gather before it more.
TEST(Redistribution, SmallTensorsTravel) {
  EXPECT_EQ(plan(spec_of({kP, kR, kI}), spec_of({kI, shard(0), kI})), "slice over cp, all-reduce over dp");
  EXPECT_EQ(plan(spec_of({kP, shard(0), kI}), spec_of({shard(1), kR, kI})),
            "reduce-scatter over dp, all-gather over cp");
}

TEST(Redistribution, AxesThatCutOneDimLeaveInnermostFirst) {
  const Spec* both = spec_of({shard(0), kI, shard(0)});
  EXPECT_EQ(plan(both, spec_of({shard(0), kI, kR})), "all-gather over tp");
  EXPECT_EQ(plan(both, spec_of({kR, kI, shard(0)})), "all-gather over dp+tp, slice over tp");
  EXPECT_EQ(plan(spec_of({shard(0), kI, shard(0)}, {2, 0}), spec_of({kR, kI, shard(0)})), "all-gather over dp");
}

TEST(Redistribution, OrderAndUnitsChangeByAllToAll) {
  EXPECT_EQ(plan(spec_of({shard(0), kI, shard(0)}), spec_of({shard(0), kI, shard(0)}, {2, 0})),
            "all-to-all over dp+tp");
  EXPECT_EQ(plan(spec_of({shard(0), kI, kI}), spec_of({shard(0), kI, kI}, {}, {7, 0, 0})), "all-to-all over dp");
}

// 7 units: 4 and 3 of them for dp, which are cut on for tp. What dp holds is the same before and after.
TEST(Redistribution, UnitsOfTheOuterAxisStay) {
  const Spec* both = spec_of({shard(0), kI, shard(0)}, {}, {7, 0, 0});
  EXPECT_EQ(plan(both, spec_of({shard(0), kI, kR}, {}, {7, 0, 0})), "all-gather over tp");
  EXPECT_EQ(plan(both, spec_of({shard(0), kI, kR})), "all-gather over tp, all-to-all over dp");
  // 6 units are three for each of two ranks, as many elements as without units, but not for eight.
  EXPECT_EQ(plan(spec_of({shard(1), shard(1), shard(1)}, {}, {0, 6, 0}), spec_of({shard(1), kR, kR}, {}, {0, 6, 0})),
            "all-gather over cp+tp");
}

TEST(Redistribution, RaggedGoesThroughTheWhole) {
  Spec spec = *spec_of({{PlacementKind::kInvariant}, kI, kI});
  spec.placements[0] = {PlacementKind::kRagged};
  spec.ragged_ends = {10, 64 * 48 * 32};
  const Spec* ragged = intern(spec);
  EXPECT_EQ(plan(ragged, spec_of({kR, kI, kI})), "all-gather over dp");
  EXPECT_EQ(plan(ragged, spec_of({shard(0), kI, kI})), "all-gather over dp, slice over dp");
  EXPECT_EQ(plan(spec_of({kP, kI, kI}), ragged), "reduce-scatter over dp");
  EXPECT_EQ(plan(spec_of({kI, kI, kI}), ragged), "slice over dp");
  EXPECT_EQ(plan(ragged, spec_of({kI, kI, shard(0)})), "all-gather over dp, slice over tp");
}

TEST(Redistribution, CostsFollowTheLinks) {
  const std::vector<Link> links = {{1e-3, 1e9}, {1e-6, 1e11}, {1e-6, 1e11}};
  const auto steps = plan_redistribution(*spec_of({kP, kI, kI}), *spec_of({kI, kI, kI}), links);
  EXPECT_NEAR(steps.at(0).seconds, 1e-3 + 2 * (64 * 48 * 32 * 4 / 1e9) / 2, 1e-9);
  const auto gather = plan_redistribution(*spec_of({kI, shard(0), shard(0)}), *spec_of({kI, kI, kI}), links);
  EXPECT_NEAR(gather.at(0).seconds, 1e-6 + 64 * 48 * 32 * 4 / 1e11 * 3 / 4, 1e-12);
}

TEST(Redistribution, ShapesStay) {
  Spec other = *spec_of({kI, kI, kI});
  other.shape = {64, 48, 16};
  EXPECT_THROW((void)plan_redistribution(*spec_of({kI, kI, kI}), *intern(other)), Error);
}

}  // namespace
}  // namespace weft::mesh
