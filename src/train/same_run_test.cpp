#include "train/same_run.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "comm/threads.h"

namespace weft::train {
namespace {

std::string refusal(int odd_rank, const std::string& odd) {
  const std::string usual = "[train]\nsteps = 3\nseed = 1\n";
  std::string message;
  try {
    comm::run_ranks(3, [&](comm::World& world) {
      const auto group = world.make_group(std::vector<int>{0, 1, 2}, "world");
      try {
        check_same("run", world.rank() == odd_rank ? odd : usual, *group);
      } catch (const InputError& error) {
        if (world.rank() == odd_rank) message = error.what();
        group->barrier("all have judged")->wait();
        throw;
      }
    });
  } catch (const InputError&) {
  }
  return message;
}

TEST(SameRun, TheKeyThatDiffersIsNamed) {
  EXPECT_EQ(refusal(-1, ""), "");
  EXPECT_EQ(refusal(2, "[train]\nsteps = 3\nseed = 2\n"),
            "rank 2 was given another run than rank 0: [train]: rank 0 has seed = 1, this rank has seed = 2");
  EXPECT_EQ(refusal(1, "[train]\nsteps = 3\n"),
            "rank 1 was given another run than rank 0: [train]: rank 0 has seed = 1, this rank has nothing");
}

TEST(SameRun, ThreadsShareTheirMachine) {
  comm::run_ranks(2, [](comm::World& world) {
    EXPECT_EQ(ranks_on_this_machine(*world.make_group(std::vector<int>{0, 1}, "world")), 2);
  });
}

}  // namespace
}  // namespace weft::train
