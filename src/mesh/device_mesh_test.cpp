#include "mesh/device_mesh.h"

#include <array>

#include <gtest/gtest.h>

#include "base/error.h"

namespace weft::mesh {
namespace {

const Mesh kMesh{{{"dp", 2}, {"fsdp", 3}, {"tp", 2}}};
using Names = std::vector<std::string_view>;

TEST(DeviceMesh, TheFirstAxisIsTheOutermost) {
  EXPECT_EQ(DeviceMesh(kMesh, 0).coordinates(), (std::vector<int>{0, 0, 0}));
  EXPECT_EQ(DeviceMesh(kMesh, 1).coordinates(), (std::vector<int>{0, 0, 1}));
  EXPECT_EQ(DeviceMesh(kMesh, 9).coordinates(), (std::vector<int>{1, 1, 1}));
}

TEST(DeviceMesh, MembersShareTheOtherAxes) {
  const DeviceMesh mesh(kMesh, 9);
  EXPECT_EQ(mesh.members(mesh.axes(Names{"tp"})), (std::vector<int>{8, 9}));
  EXPECT_EQ(mesh.members(mesh.axes(Names{"fsdp"})), (std::vector<int>{7, 9, 11}));
  EXPECT_EQ(mesh.members(mesh.axes(Names{"tp", "dp"})), (std::vector<int>{2, 3, 8, 9}));
  EXPECT_EQ(mesh.members(0), (std::vector<int>{9}));
}

TEST(DeviceMesh, PlaceIsTheIndexAmongMembers) {
  for (int rank = 0; rank < kMesh.ranks(); ++rank) {
    const DeviceMesh mesh(kMesh, rank);
    for (AxisSet axes = 0; axes < 8; ++axes) {
      const std::vector<int> members = mesh.members(axes);
      EXPECT_EQ(static_cast<int64_t>(members.size()), size_of(kMesh, axes));
      EXPECT_EQ(members[static_cast<size_t>(mesh.place(axes))], rank);
    }
  }
}

TEST(DeviceMesh, NamesOfGroups) {
  EXPECT_EQ(text(kMesh, 0b011), "dp+fsdp");
  EXPECT_EQ(text(kMesh, 0b101), "dp+tp");
  EXPECT_EQ(text(kMesh, 0), "none");
}

TEST(DeviceMesh, MistakesAreNamed) {
  EXPECT_THROW(DeviceMesh(kMesh, 12), Error);
  EXPECT_THROW((void)DeviceMesh(kMesh, 0).axes(Names{"pp"}), Error);
  EXPECT_THROW(DeviceMesh(Mesh{{{"dp", 2}, {"dp", 2}}}, 0), Error);
  check_ranks(kMesh, 12);
  try {
    check_ranks(kMesh, 8);
    FAIL();
  } catch (const InputError& error) {
    EXPECT_STREQ(error.what(), "the degrees dp 2 x fsdp 3 x tp 2 make 12 ranks, but there are 8");
  }
}

}  // namespace
}  // namespace weft::mesh
