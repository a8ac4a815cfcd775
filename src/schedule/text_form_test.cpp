#include "schedule/text_form.h"

#include <string>

#include <gtest/gtest.h>

#include "base/error.h"
#include "schedule/generate.h"
#include "schedule/passes.h"

namespace weft::schedule {
namespace {

std::string message_of(const std::string& text) {
  try {
    (void)read_csv(text, "plan.csv");
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST(TextForm, WhatIsWrittenIsReadAgain) {
  for (const Kind kind :
       {Kind::k1f1b, Kind::kBreadthFirst, Kind::kZeroBubbleH2, Kind::kZeroBubbleV, Kind::kDualPipeV}) {
    GenerateOptions options;
    options.roles = 3;
    options.micro_batches = 7;
    Schedule schedule = generate(kind, options);
    for (const MessagePlace place : {MessagePlace::kSender, MessagePlace::kTime, MessagePlace::kLate}) {
      Schedule full = limit_run_ahead(place_messages(place_shards(schedule, 2), place, {}), 20);
      full = recompute(full, std::vector<bool>(schedule.stages.size(), true));
      const Schedule again = read_csv(csv(full), "again");
      EXPECT_EQ(csv(again), csv(full));
      EXPECT_EQ(hash(again), hash(full));
    }
  }
}

TEST(TextForm, FrozenStagesAreThoseWithoutWeightGradients) {
  GenerateOptions options;
  options.roles = 4;
  options.micro_batches = 5;
  options.frozen = {true, false, true, false};
  const Schedule schedule = generate(Kind::k1f1b, options);
  EXPECT_EQ(csv(schedule),
            "0F0,0F1,0F2,0F3,0F4\n1F0,1F1,1F2,1B0,1F3,1B1,1F4,1B2,1B3,1B4\n"
            "2F0,2F1,2I0,2F2,2I1,2F3,2I2,2F4,2I3,2I4\n3F0,3B0,3F1,3B1,3F2,3B2,3F3,3B3,3F4,3B4\n");
  EXPECT_EQ(hash(read_csv(csv(schedule), "frozen")), hash(schedule));
}

TEST(TextForm, SpacesQuotesAndEmptyCellsAreNothing) {
  const Schedule plain = read_csv("0F0,0B0\n1F0,1B0\n", "plain");
  EXPECT_EQ(hash(read_csv(" 0F0 ,\"0B0\",\r\n,,1F0,,1B0,,\r\n\r\n", "spaced")), hash(plain));
}

TEST(TextForm, AReductionIsItsBeginAndItsWait) {
  const Schedule schedule = read_csv("0F0,0B0,0REDUCE_GRAD\n", "bare");
  EXPECT_EQ(csv(schedule), "0F0,0B0,0REDUCE_GRAD,0WAIT_REDUCE_GRAD\n");
  EXPECT_EQ(hash(read_csv(csv(schedule), "with its wait")), hash(schedule));
}

TEST(TextForm, MessagesSayWhere) {
  EXPECT_EQ(message_of("0F0,0B0\n1F0,1X0\n"),
            "plan.csv: row 2, column 2: \"1X0\" is no action, expected as in 2F0, 1SEND_F3 or 4UNSHARD");
  EXPECT_EQ(message_of("0F0,0B0\n0F1,0B1\n"), "plan.csv: row 2, column 1: stage 0 is computed in row 1 already");
  EXPECT_EQ(message_of("0F0,F1"), "plan.csv: row 1, column 2: \"F1\": F needs its stage in front of it");
  EXPECT_EQ(message_of("0F0,0F"), "plan.csv: row 1, column 2: \"0F\": F needs its micro-batch behind it");
  EXPECT_EQ(message_of("0F0,0UNSHARD1"),
            "plan.csv: row 1, column 2: \"0UNSHARD1\": UNSHARD has no micro-batch behind it");
  EXPECT_EQ(message_of("0F0,0F99999999999"),
            "plan.csv: row 1, column 2: \"0F99999999999\" has a number too high for a text of 2 actions");
  EXPECT_EQ(message_of("0F0,0B0,2F0,2B0"), "plan.csv: no row computes stage 1 of 3");
  EXPECT_EQ(message_of("0F0,0SEND_F0"),
            "plan.csv: row 1, column 2: send(stage 0, micro-batch 0) from stage 0, which is the last");
  EXPECT_EQ(message_of("(0F0;0F1)OVERLAP_F_B"),
            "plan.csv: row 1, column 1: \"(0F0;0F1)OVERLAP_F_B\": a pair is a forward and a backward, as in "
            "(0F3;3B1)OVERLAP_F_B");
  EXPECT_EQ(message_of("(0F0)OVERLAP_F_B"),
            "plan.csv: row 1, column 1: \"(0F0)OVERLAP_F_B\" is no pair, expected as in (0F3;3B1)OVERLAP_F_B");
  EXPECT_EQ(message_of("0F0{colour=1}"),
            "plan.csv: row 1, column 1: \"0F0{colour=1}\" goes on where an action ends; {slice=0} alone may follow");
  EXPECT_EQ(message_of("0F0,0B0,0WAIT_REDUCE_GRAD\n"),
            "plan.csv: row 1, column 3: \"0WAIT_REDUCE_GRAD\" waits for no reduction in front of it");
  EXPECT_EQ(message_of("\n\n"), "plan.csv: no action");
}

// A few actions cannot ask for a plan of millions.
TEST(TextForm, MemoryIsBoundedByTheText) {
  std::string text = "999F0,";
  for (int cell = 0; cell < 1000; ++cell) text += "0F999,";
  EXPECT_EQ(message_of(text), "plan.csv: 1000 stages and 1000 micro-batches in only 1001 actions");
}

TEST(TextForm, HashesTellSchedulesApart) {
  GenerateOptions options;
  options.roles = 2;
  options.micro_batches = 4;
  const Schedule schedule = generate(Kind::kGpipe, options);
  const uint64_t before = hash(schedule);
  EXPECT_EQ(hash(generate(Kind::kGpipe, options)), before);
  Schedule other = schedule;
  std::swap(other.roles[1].actions[0], other.roles[1].actions[1]);
  EXPECT_NE(hash(other), before);
  other = schedule;
  other.roles[0].actions.push_back(other.roles[1].actions[0]);
  other.roles[1].actions.erase(other.roles[1].actions.begin());
  EXPECT_NE(hash(other), before);
  other = schedule;
  other.stages[1].trains = false;
  EXPECT_NE(hash(other), before);
  other = schedule;
  other.roles[0].actions[3].paired = true;
  EXPECT_NE(hash(other), before);
}

}  // namespace
}  // namespace weft::schedule
