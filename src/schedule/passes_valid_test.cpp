// What generators and passes make is what the validator takes, in every combination.
#include <optional>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "schedule/generate.h"
#include "schedule/passes.h"
#include "schedule/text_form.h"
#include "schedule/validate_stages.h"

namespace weft::schedule {
namespace {

std::vector<Schedule> generated() {
  std::vector<Schedule> result;
  for (const Kind kind : all_kinds()) {
    for (const int32_t roles : {1, 2, 3, 5}) {
      for (const int32_t micro_batches : {1, 2, 4, 7, 11}) {
        GenerateOptions options;
        options.roles = roles;
        options.micro_batches = micro_batches;
        const bool any_chunks = kind == Kind::kInterleaved || kind == Kind::kBreadthFirst;
        for (options.chunks = any_chunks ? 1 : 0; options.chunks <= (any_chunks ? 3 : 0); ++options.chunks) {
          options.frozen.clear();
          result.push_back(generate(kind, options));
          const size_t stages = result.back().stages.size();
          options.frozen.assign(stages, false);
          options.frozen[0] = options.frozen[stages / 2] = true;
          result.push_back(generate(kind, options));
        }
      }
    }
  }
  return result;
}

// Empty where the validator has nothing to say.
std::string fault(const Schedule& schedule, const Limits& limits = {}) {
  const std::optional<Fault> found = validate_stages(schedule, limits);
  return found ? fmt::format("role {}, action {}: {}\n{}", found->role, found->action, found->reason, csv(schedule))
               : std::string();
}

TEST(PassesValid, Alone) {
  for (const Schedule& schedule : generated()) {
    ASSERT_EQ(fault(schedule), "");
    ASSERT_EQ(fault(split_backward(schedule)), "");
    ASSERT_EQ(fault(merge_backward(schedule)), "");
    ASSERT_EQ(fault(forward_only(schedule)), "");
    ASSERT_EQ(fault(recompute(schedule, std::vector<bool>(schedule.stages.size(), true))), "");
    ASSERT_EQ(fault(read_csv(csv(schedule), "again")), "");
  }
}

TEST(PassesValid, ShardsAndMessagesInBothOrders) {
  for (const Schedule& bare : generated()) {
    for (const MessagePlace place : {MessagePlace::kSender, MessagePlace::kTime, MessagePlace::kLate}) {
      for (const int32_t whole : {2, 3}) {
        const Limits limits{.whole_stages = whole};
        ASSERT_EQ(fault(place_messages(place_shards(bare, whole), place, {}), limits), "");
        ASSERT_EQ(fault(place_shards(place_messages(bare, place, {}), whole), limits), "");
      }
      ASSERT_EQ(fault(place_shards(place_messages(bare, place, {}), 1, false)), "");
    }
  }
}

TEST(PassesValid, Waits) {
  for (const Schedule& bare : generated()) {
    for (const MessagePlace place : {MessagePlace::kSender, MessagePlace::kTime}) {
      for (const int32_t messages : {1, 3}) {
        ASSERT_EQ(fault(limit_run_ahead(place_messages(bare, place, {}), messages)), "");
      }
    }
  }
}

TEST(PassesValid, DeferredForwards) {
  for (const int32_t micro_batches : {1, 3, 4, 8, 9}) {
    GenerateOptions options;
    options.roles = 4;
    options.chunks = 2;
    options.micro_batches = micro_batches;
    ASSERT_EQ(fault(place_messages(defer_forwards(generate(Kind::kInterleaved, options)), MessagePlace::kSender, {})),
              "");
  }
}

// What zb-auto, v-half and v-min promise of memory.
TEST(PassesValid, Memory) {
  for (const int32_t roles : {2, 3, 4, 6, 8}) {
    GenerateOptions options;
    options.roles = roles;
    options.micro_batches = 3 * roles;
    Limits limits;
    limits.weight_share = options.weight_share;
    limits.activations = roles / 2.0 + 1;
    EXPECT_EQ(fault(generate(Kind::kVHalf, options), limits), "");
    limits.activations = roles / 3.0 + 1;
    EXPECT_EQ(fault(generate(Kind::kVMin, options), limits), "");
    for (const double memory : {1.0, roles / 2.0 + 0.5, 1.0 * roles, 1.7 * roles, 2.0 * roles}) {
      limits.activations = options.memory = memory;
      EXPECT_EQ(fault(generate(Kind::kZeroBubbleAuto, options), limits), "");
    }
    options.memory = 0;
  }
}

}  // namespace
}  // namespace weft::schedule
