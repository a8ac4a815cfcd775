// Strict mode: every layout gives the same bits. A program of its own, since MKL's mode is the process's.
#include <algorithm>

#include <gtest/gtest.h>

#include "base/philox.h"
#include "kernel/process.h"
#include "runs.h"

namespace weft::equality {
namespace {

// More ranks than strict sums have simple parts for.
const std::vector<Settings> kManyRanks = {"data=5",
                                          "data=7 zero=2",
                                          "data=8",
                                          "tensor=4",
                                          "tensor=8",
                                          "tensor=8 sequence=true",
                                          "tensor=3 sequence=true micro_batches=2"};

std::vector<Settings> all_layouts() {
  std::vector<Settings> all = kLayouts;
  all.insert(all.end(), kManyRanks.begin(), kManyRanks.end());
  return all;
}

class Strict : public testing::TestWithParam<const char*> {};

void expect_one_outcome(Runs& runs, const std::string& model, const std::vector<Settings>& layouts,
                        const std::vector<std::string>& assignments) {
  const Outcome one = runs.train(model, "", assignments);
  ASSERT_GE(one.losses.size(), 8U);
  EXPECT_LT(one.losses.back(), one.losses.front() - 0.5) << "learns nothing, so that nothing is compared";
  for (const Settings& layout : layouts) {
    const Outcome many = runs.train(model, layout, assignments);
    EXPECT_EQ(many.losses, one.losses) << layout;
    EXPECT_EQ(many.gradient_norms, one.gradient_norms) << layout;
    EXPECT_EQ(many.summary.parameter_hash, one.summary.parameter_hash) << layout;
    EXPECT_EQ(many.summary.validation_loss, one.summary.validation_loss) << layout;
  }
}

TEST_P(Strict, EveryLayoutGivesOneHash) {
  Runs runs;
  expect_one_outcome(runs, GetParam(), all_layouts(), {"train.strict=true"});
  const Outcome plain = runs.train(GetParam(), "");
  const Outcome strict = runs.train(GetParam(), "", {"train.strict=true"});
  EXPECT_NEAR(plain.losses.back(), strict.losses.back(), 1e-3) << "strict mode computes something else";
}

TEST_P(Strict, EveryPipelineGivesOneHash) {
  Runs runs;
  runs.sleep_at_random();
  expect_one_outcome(runs, GetParam(), kPipelines, {"train.strict=true", "model.layers=4", "train.steps=8"});
}

// Rates by class and width, and a batch and a length that change: what a group of the optimizer is cut from follows
// from the layout, what it does must not.
TEST_P(Strict, PhasesAndParametrisationGiveOneHash) {
  Runs runs;
  const std::vector<std::string> assignments = {
      "train.strict=true", "parametrisation={kind='mup', base_width=16, output_multiplier=2.0}",
      "phases=[{kind='linear', steps=3, start=0.0, end=1.0}, {kind='constant', steps=5, global_batch=4, context=9}, "
      "{kind='exponential', steps=12, end=0.1, context=17, rates=[{kind='vector', end=0.5}, "
      "{kind='embedding', end=0.25}]}]"};
  const std::vector<Settings> layouts = {"data=3 micro_batches=2",        "data=4 zero=1", "fsdp=3 micro_batches=2",
                                         "fsdp=2 tensor=2 sequence=true", "tensor=3",      "context=2 tensor=2"};
  expect_one_outcome(runs, GetParam(), layouts, assignments);
}

TEST_P(Strict, MuonOnWholeMatricesGivesOneHash) {
  Runs runs;
  expect_one_outcome(runs, GetParam(), {"micro_batches=3", "data=3", "context=2", "pipeline=2 data=2 micro_batches=2"},
                     {"train.strict=true", "model.layers=4", "optimizer={kind='muon', learning_rate=0.02}"});
}

// Saved and resumed every few steps under another layout, its ranks coming late to their calls.
TEST_P(Strict, AWalkOverLayoutsGivesOneHash) {
  Runs runs;
  const Outcome one = runs.train(GetParam(), "", {"train.strict=true"});
  for (const uint64_t walk : {1, 2}) {
    const std::string folder = "walk-" + std::to_string(walk);
    runs.sleep_at_random();
    Outcome last;
    int64_t steps = 0;
    std::string way;
    for (uint64_t leg = 0; steps < 20; ++leg) {
      const RandomKey key{walk, 0};
      steps = std::min<int64_t>(20, steps + 2 + static_cast<int64_t>(random_word(key, 2 * leg) % 5));
      const Settings& layout = kLayouts[random_word(key, 2 * leg + 1) % kLayouts.size()];
      way += std::to_string(steps) + ": " + layout + "\n";
      last = runs.train_in(folder, GetParam(), layout, {"train.strict=true", "train.steps=" + std::to_string(steps)},
                           leg > 0);
    }
    EXPECT_EQ(last.losses, one.losses) << way;
    EXPECT_EQ(last.summary.parameter_hash, one.summary.parameter_hash) << way;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Strict, testing::Values("gpt", "llama"),
                         [](const auto& row) { return std::string(row.param); });

}  // namespace
}  // namespace weft::equality

int main(int count, char** words) {
  testing::InitGoogleTest(&count, words);
  weft::kernel::start_process({.threads = 1, .reproducible = true});
  return RUN_ALL_TESTS();
}
