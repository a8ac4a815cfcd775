#include <chrono>
#include <cstdio>
#include <sys/resource.h>

#include <gtest/gtest.h>

#include "schedule/generate.h"
#include "schedule/passes.h"
#include "simulate/simulate.h"

namespace weft::simulate {
namespace {

// 256 roles of 4 stages, 1,024 micro-batches: a million cells, six million actions with their messages.
TEST(SimulateSlow, ALargeScheduleFitsInFourGibibytes) {
  schedule::GenerateOptions options;
  options.roles = 256;
  options.chunks = 4;
  options.micro_batches = 1024;
  const schedule::Times times = {.message = 0.01};
  schedule::Schedule schedule = generate(schedule::Kind::kInterleaved, options);
  schedule = place_messages(schedule, schedule::MessagePlace::kSender, times);
  int64_t actions = 0;
  for (const schedule::RoleSchedule& role : schedule.roles) actions += static_cast<int64_t>(role.actions.size());
  const auto start = std::chrono::steady_clock::now();
  const Simulation result = simulate(schedule, costs_of(schedule, times));
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  std::printf("%.1f million actions in %.2f s, at most %.2f GiB in all\n", 1e-6 * static_cast<double>(actions), seconds,
              static_cast<double>(usage.ru_maxrss) / (1 << 20));
  EXPECT_EQ(actions, 2 * 1024 * 1024 + 4 * 1024 * (1024 - 1));
  EXPECT_NEAR(result.work, 3 * 1024, 1e-6);
  EXPECT_LT(result.bubble_rate_makespan(), 0.1);
  EXPECT_LT(usage.ru_maxrss, 4 << 20);
}

}  // namespace
}  // namespace weft::simulate
