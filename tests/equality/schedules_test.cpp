// Strict mode: every schedule gives the bits of one rank, whatever is sharded, frozen, tied or uneven. A program of its
// own, since MKL's mode is the process's.
#include <algorithm>
#include <unistd.h>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "base/philox.h"
#include "kernel/process.h"
#include "runs.h"
#include "schedule/generate.h"
#include "schedule/text_form.h"
#include "schedule/validate_stages.h"

namespace weft::equality {
namespace {

using Assignments = std::vector<std::string>;

// Four layers with dropout, a tied head, 9 sequences in uneven micro-batches.
Assignments small(Assignments more = {}) {
  more.insert(more.end(), {"model.layers=4", "train.strict=true", "train.steps=3"});
  return more;
}

void expect_alike(const Outcome& many, const Outcome& one, const std::string& what) {
  EXPECT_EQ(many.losses, one.losses) << what;
  EXPECT_EQ(many.gradient_norms, one.gradient_norms) << what;
  EXPECT_EQ(many.summary.parameter_hash, one.summary.parameter_hash) << what;
}

std::string of_kind(schedule::Kind kind) {
  const bool looped = kind == schedule::Kind::kInterleaved || kind == schedule::Kind::kBreadthFirst;
  return fmt::format("pipeline=2 kind={}{}", name(kind), looped ? " chunks=2" : "");
}

// Replicated, ZeRO-2, ZeRO-3; as many micro-batches as roles do not divide, and fewer than roles.
TEST(Schedules, EveryKindOverEveryShardingGivesOneHash) {
  Runs runs;
  const Outcome one = runs.train("llama", "", small());
  for (const schedule::Kind kind : schedule::all_kinds()) {
    for (const char* sharding : {"micro_batches=3", "data=2 zero=2 micro_batches=3", "fsdp=2 micro_batches=5",
                                 "fsdp=2 whole_stages=1 micro_batches=1"}) {
      // A pair of two stages needs both whole.
      if (kind == schedule::Kind::kDualPipeV &&
          std::string_view(sharding).find("whole_stages=1") != std::string_view::npos)
        continue;
      const std::string settings = of_kind(kind) + " " + sharding;
      expect_alike(runs.train("llama", settings, small()), one, settings);
    }
  }
}

// Stages in front that do not learn, a stage in the middle that does not, and an untied head.
TEST(Schedules, FrozenStagesAndUntiedHeadsToo) {
  Runs runs;
  for (const Assignments& changes : {Assignments{"train.frozen=[\"embedding*\",\"layers.0.*\"]"},
                                     Assignments{"train.frozen=[\"layers.1.*\"]"}, Assignments{"model.tied=false"}}) {
    const Outcome one = runs.train("llama", "", small(changes));
    for (const schedule::Kind kind : schedule::all_kinds()) {
      const std::string settings = of_kind(kind) + " micro_batches=4";
      expect_alike(runs.train("llama", settings, small(changes)), one, settings + " " + changes.front());
    }
  }
}

// Neighbours of a random role change places as long as the schedule stays valid.
schedule::Schedule reordered(schedule::Schedule plain, uint64_t number) {
  const RandomKey key{number, 0};
  uint64_t drawn = 0;
  for (int i = 0; i < 400; ++i) {
    schedule::Schedule changed = plain;
    std::vector<schedule::Action>& actions = changed.roles[random_word(key, drawn++) % changed.roles.size()].actions;
    const size_t place = random_word(key, drawn++) % (actions.size() - 1);
    std::swap(actions[place], actions[place + 1]);
    if (!validate_stages(changed)) plain = std::move(changed);
  }
  return plain;
}

TEST(Schedules, EveryLegalOrderGivesOneHash) {
  Runs runs;
  const Outcome one = runs.train("llama", "", small());
  schedule::GenerateOptions options;
  options.roles = 2;
  options.micro_batches = 4;
  for (const schedule::Kind kind : {schedule::Kind::kZeroBubbleH1, schedule::Kind::kZeroBubbleV}) {
    const schedule::Schedule plain = generate(kind, options);
    for (const uint64_t number : {1, 2, 3}) {
      const std::string text = csv(reordered(plain, number));
      EXPECT_NE(text, csv(plain));
      const std::filesystem::path path =
          std::filesystem::temp_directory_path() / fmt::format("weft_order_{}_{}.csv", getpid(), number);
      write_file(path, text);
      const Outcome many =
          runs.train("llama", "pipeline=2 micro_batches=4", small({"schedule.kind=\"" + path.string() + "\""}));
      expect_alike(many, one, text);
      std::filesystem::remove(path);
    }
  }
}

}  // namespace
}  // namespace weft::equality

int main(int count, char** words) {
  testing::InitGoogleTest(&count, words);
  weft::kernel::start_process({.threads = 1, .reproducible = true});
  return RUN_ALL_TESTS();
}
