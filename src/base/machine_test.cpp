#include "base/machine.h"

#include <fstream>
#include <gtest/gtest.h>
#include <unistd.h>

namespace weft {
namespace {

TEST(Machine, HasCoresAndMemory) {
  EXPECT_GE(usable_cores(), 1);
  EXPECT_GT(available_memory(), uint64_t{1} << 20);
  EXPECT_GE(total_memory(), available_memory());
}

class Groups : public ::testing::Test {
 protected:
  Groups() {
    root_ = std::filesystem::temp_directory_path() / ("weft_groups_" + std::to_string(getpid()));
    std::filesystem::create_directories(root_ / "a" / "b");
  }
  ~Groups() override { std::filesystem::remove_all(root_); }
  void write(const std::filesystem::path& name, const std::string& text) { std::ofstream(root_ / name) << text; }
  std::filesystem::path root_;
};

TEST_F(Groups, WithoutLimitsThereAreNone) {
  write("a/memory.max", "max\n");
  write("a/cpu.max", "max 100000\n");
  const GroupLimits limits = group_limits(root_, "/a/b");
  EXPECT_EQ(limits.cores, 0);
  EXPECT_EQ(limits.memory, 0U);
}

TEST_F(Groups, TheTightestOfAllParentsHolds) {
  write("a/b/memory.max", "8000\n");
  write("a/b/memory.current", "1000\n");
  write("a/memory.max", "5000\n");
  write("a/memory.current", "3500\n");
  write("a/memory.stat", "anon 3000\ninactive_file 500\n");
  write("a/b/cpu.max", "250000 100000\n");
  write("a/cpu.max", "150000 100000\n");
  const GroupLimits limits = group_limits(root_, "/a/b");
  EXPECT_EQ(limits.memory, 5000U);
  EXPECT_EQ(limits.memory_available, 2000U);
  EXPECT_EQ(limits.cores, 1.5);
}

TEST_F(Groups, AGroupAboveItsLimitHasNothingLeft) {
  write("a/memory.max", "5000\n");
  write("a/memory.current", "6000\n");
  EXPECT_EQ(group_limits(root_, "/a").memory_available, 0U);
}

}  // namespace
}  // namespace weft
