#include "schedule/passes.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>

#include <gtest/gtest.h>

#include "base/error.h"
#include "schedule/rendezvous.h"
#include "schedule/text_form.h"
#include "schedule/timeline.h"

namespace weft::schedule {
namespace {

GenerateOptions shape(int32_t roles, int32_t chunks, int32_t micro_batches) {
  GenerateOptions options;
  options.roles = roles;
  options.chunks = chunks;
  options.micro_batches = micro_batches;
  return options;
}

// Of the role that has the most.
int64_t count(const Schedule& schedule, Op op) {
  int64_t most = 0;
  for (const RoleSchedule& role : schedule.roles) {
    most = std::max<int64_t>(most, std::ranges::count(role.actions, op, &Action::op));
  }
  return most;
}

struct Gathers {
  int32_t roles, chunks, micro_batches;
  std::array<int64_t, 3> breadth_first, interleaved;  // with 1, 2 and 3 whole stages
};
constexpr Gathers kGathers[] = {
    {4, 2, 8, {3, 2, 2}, {19, 2, 2}},     {4, 4, 8, {7, 6, 5}, {39, 12, 11}},  {4, 4, 16, {7, 6, 5}, {99, 20, 15}},
    {4, 4, 32, {7, 6, 5}, {219, 36, 23}}, {8, 4, 32, {7, 6, 5}, {-1, 20, 15}}, {8, 8, 16, {15, 14, 13}, {-1, 28, 27}},
    {2, 2, 4, {3, 2, 2}, {-1, 2, 2}},
};

TEST(PlaceShards, GathersAreThoseOfTheTable) {
  for (const auto& [roles, chunks, micro_batches, breadth_first, interleaved] : kGathers) {
    for (const int32_t whole : {1, 2, 3}) {
      const size_t column = static_cast<size_t>(whole - 1);
      const GenerateOptions options = shape(roles, chunks, micro_batches);
      const Schedule bfs = place_shards(generate(Kind::kBreadthFirst, options), whole);
      EXPECT_EQ(count(bfs, Op::kUnshard), breadth_first[column]);
      EXPECT_EQ(count(bfs, Op::kReduceGradient), chunks);
      if (interleaved[column] < 0) continue;
      const Schedule table = place_shards(generate(Kind::kInterleaved, options), whole);
      EXPECT_EQ(count(table, Op::kUnshard), interleaved[column])
          << roles << " " << chunks << " " << micro_batches << " " << whole;
    }
  }
}

constexpr MessagePlace kPlaces[] = {MessagePlace::kSender, MessagePlace::kTime, MessagePlace::kLate};

std::vector<Schedule> generated(int32_t most_roles, int32_t most_micro_batches) {
  std::vector<Schedule> result;
  for (const Kind kind : all_kinds()) {
    const bool any_chunks = kind == Kind::kInterleaved || kind == Kind::kBreadthFirst;
    for (int32_t roles = 1; roles <= most_roles; ++roles) {
      for (int32_t chunks = any_chunks ? 1 : 0; chunks <= (any_chunks ? 3 : 0); ++chunks) {
        for (int32_t micro_batches = 1; micro_batches <= most_micro_batches; micro_batches += 2) {
          result.push_back(generate(kind, shape(roles, chunks, micro_batches)));
        }
      }
    }
  }
  return result;
}

// Peer bugs: pytorch 127796 (wrap-around sends), 127332 and PiPPy 1088 (sends that cross), torchtitan 775 (M < P).
TEST(PlaceMessages, NoPlaceHangs) {
  Times slow;
  slow.message = 0.7;
  for (const Schedule& schedule : generated(5, 11)) {
    for (const MessagePlace place : kPlaces) {
      for (const Times& times : {Times{}, slow}) {
        const Schedule placed = place_messages(schedule, place, times);
        const std::optional<Schedule> done = run_rendezvous(placed);
        ASSERT_TRUE(done.has_value()) << static_cast<int>(place) << "\n" << csv(schedule) << "\n" << csv(placed);
        Schedule bare = placed;
        for (RoleSchedule& role : bare.roles) {
          std::erase_if(role.actions, [](const Action& a) { return a.op == Op::kSend || a.op == Op::kReceive; });
        }
        ASSERT_EQ(csv(bare), csv(schedule));
      }
    }
  }
}

TEST(DeferForwards, TheStepStaysAndThePeakFalls) {
  const Schedule before = generate(Kind::kInterleaved, shape(4, 2, 8)), after = defer_forwards(before);
  Times chunk;
  chunk.forward = 2;  // a chunk: 1 and 2
  chunk.input = 4;
  chunk.weight = 0;
  const Durations lengths = durations(chunk, {}, 8, 2);
  EXPECT_EQ(timeline(before, lengths)->makespan, 57);
  const Timeline when = *timeline(after, lengths);
  EXPECT_EQ(when.makespan, 57);
  std::vector<double> begins;
  int64_t held = 0, peak = 0;
  for (size_t index = 0; index < after.roles[0].actions.size(); ++index) {
    const Action& action = after.roles[0].actions[index];
    held += action.op == Op::kForward ? 1 : -1;
    peak = std::max(peak, held);
    if (action.op == Op::kForward && action.stage == 0) begins.push_back(when.begins[0][index]);
  }
  EXPECT_EQ(peak, 8);
  EXPECT_EQ(begins, (std::vector<double>{0, 1, 2, 3, 16, 19, 22, 25}));
}

}  // namespace
}  // namespace weft::schedule
