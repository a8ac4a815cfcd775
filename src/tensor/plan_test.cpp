#include "tensor/plan.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "comm/threads.h"
#include "tensor/test_shards.h"

namespace weft::tensor {
namespace {

const mesh::Mesh kMesh{{{"fsdp", 2}, {"tp", 2}}};

TEST(Plan, PatternsMatchAnyText) {
  EXPECT_TRUE(matches("*", "a.b"));
  EXPECT_TRUE(matches("layers.*.weight", "layers.3.up.weight"));
  EXPECT_TRUE(matches("*up*", "layers.3.up.weight"));
  EXPECT_FALSE(matches("layers.*.weight", "layers.3.up.bias"));
  EXPECT_FALSE(matches("up", "layers.up"));
}

TEST(Plan, TheLastLineThatNamesAnAxisCounts) {
  comm::run_ranks(4, [](comm::World& world) {
    const comm::Groups groups(world, kMesh);
    const Plan plan({{"*", Moment::kKept, "fsdp: shard(0)"},
                     {"*.up", Moment::kKept, "tp: shard(0) in 3"},
                     {"*.down", Moment::kKept, "tp: shard(1), fsdp: invariant"},
                     {"*", Moment::kUsed, "fsdp: replicate"},
                     {"*.out", Moment::kValue, "tp: shard(1)"},
                     {"*.typo", Moment::kValue, "tp: shard(1)"}},
                    groups);
    EXPECT_EQ(plan.kept("norm", {8})->text(), "f32[8] {fsdp: shard(0), tp: invariant}");
    EXPECT_EQ(plan.kept("0.down", {8, 6})->text(), "f32[8, 6] {fsdp: invariant, tp: shard(1)}");
    const mesh::Spec* up = plan.kept("0.up", {8, 6}, mesh::ElementType::kFloat64);
    EXPECT_EQ(up->text(), "f64[8 in 3 units, 6] {fsdp: shard(0), tp: shard(0)}");
    EXPECT_EQ(up->shard_order, (std::vector<int8_t>{1, 0}));
    const at::Tensor whole = whole_numbers({8, 6}, 1);
    const DTensor used = plan.use("0.up", distribute(whole, up, groups.device_mesh()));
    EXPECT_EQ(used.spec->text(), "f64[8 in 3 units, 6] {fsdp: replicate, tp: shard(0)}");
    EXPECT_TRUE(at::equal(used.local,
                          groups.device_mesh().coordinates()[1] == 0 ? whole.narrow(0, 0, 6) : whole.narrow(0, 6, 2)));
    EXPECT_EQ(plan.place("0.out", used).spec->text(), "f64[8, 6] {fsdp: replicate, tp: shard(1)}");
    EXPECT_EQ(plan.place("elsewhere", used).spec, used.spec);
    EXPECT_EQ(plan.unmatched(), "\"*.typo\": \"tp: shard(1)\" matched nothing\n");
  });
}

TEST(Plan, MistakesAreNamed) {
  comm::run_ranks(1, [](comm::World& world) {
    const comm::Groups groups(world, {{{"tp", 1}}});
    for (const char* placements : {"tp", "tp: cut(0)", "tp: shard(x)", "tp: shard(0) in 0", "dp: shard(0)"}) {
      EXPECT_THROW(Plan({{"*", Moment::kKept, placements}}, groups), InputError) << placements;
    }
  });
}

}  // namespace
}  // namespace weft::tensor
