#include "comm/groups.h"

#include <gtest/gtest.h>

#include "comm/threads.h"

namespace weft::comm {
namespace {

const mesh::Mesh kMesh{{{"dp", 2}, {"tp", 3}}};

TEST(Groups, EachAddsOverItsAxes) {
  run_ranks(6, [](World& world) {
    const Groups groups(world, kMesh);
    const auto sum = [&](mesh::AxisSet axes) {
      int64_t number = int64_t{1} << (4 * world.rank());
      groups.group(axes).all_reduce({&number, 1, mesh::ElementType::kInt64}, Reduction::kSum, "sum")->wait();
      return number;
    };
    EXPECT_EQ(sum(0b11), 0x111111);
    EXPECT_EQ(sum(0b10), world.rank() < 3 ? 0x000111 : 0x111000);
    EXPECT_EQ(sum(0b01), int64_t{0x001001} << (4 * (world.rank() % 3)));
  });
}

TEST(Groups, OrderOfTheSetsDoesNotMatter) {
  run_ranks(6, [](World& world) {
    const Groups groups = world.rank() % 2 == 0 ? Groups(world, kMesh, {0b11, 0b01, 0b10})
                                                : Groups(world, kMesh, {0b01, 0b10, 0b11, 0b01});
    EXPECT_EQ(groups.group(0b11).size(), 6);
    EXPECT_EQ(groups.group(0b10).size(), 3);
    EXPECT_EQ(groups.group(0b10).name(), "tp");
    EXPECT_EQ(groups.group(0b11).name(), "dp+tp");
  });
}

TEST(Groups, MistakesAreNamed) {
  run_ranks(2, [](World& world) {
    EXPECT_THROW(Groups(world, kMesh), InputError);
    const Groups groups(world, {{{"dp", 2}, {"tp", 1}}}, {0b01});
    try {
      (void)groups.group(0b11);
      ADD_FAILURE();
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("dp+tp"), std::string::npos) << error.what();
    }
  });
}

}  // namespace
}  // namespace weft::comm
