#include "train/memory_check.h"

#include <gtest/gtest.h>

#include "model/describe.h"
#include "model/memory.h"
#include "train/small_run.h"

namespace weft::train {
namespace {

constexpr uint64_t kEnough = uint64_t{1} << 40;

uint64_t need(const run::RunNode& run, int64_t sequences, int64_t length) {
  model::MemoryQuestion question;
  question.micro_batch = {sequences, length};
  return static_cast<uint64_t>(model::estimate_memory(model::describe(run.model), question).total());
}

TEST(MemoryCheck, WhatFitsIsNotMentioned) {
  const run::RunNode run = small_run();
  const model::ModelDescription model = model::describe(run.model);
  EXPECT_EQ(memory_shortage(run, model, {}, kEnough), "");
  EXPECT_EQ(memory_shortage(run, model, {}, need(run, 6, 4) + 1), "");
  EXPECT_NE(memory_shortage(run, model, {}, need(run, 6, 4) - 1), "");
}

TEST(MemoryCheck, NamesTheMicroBatchThatFits) {
  const run::RunNode run = small_run();
  const model::ModelDescription model = model::describe(run.model);
  for (const int64_t sequences : {1, 2, 5}) {
    const std::string message = memory_shortage(run, model, {}, need(run, sequences, 4) + 1);
    EXPECT_NE(message.find("train.micro_batch = " + std::to_string(sequences) + " "), std::string::npos) << message;
  }
}

TEST(MemoryCheck, MicroBatchesAreWhatCounts) {
  run::RunNode run = small_run();
  run.schedule.micro_batches = 3;
  EXPECT_EQ(memory_shortage(run, model::describe(run.model), {}, need(run, 2, 4) + 1), "");
}

TEST(MemoryCheck, SaysWhetherContextOrModelIsTooLarge) {
  run::RunNode run = small_run();
  run.data.context = 1000;
  const model::ModelDescription model = model::describe(run.model);
  const std::string context = memory_shortage(run, model, {}, need(run, 1, 500));
  EXPECT_NE(context.find("data.context"), std::string::npos) << context;
  const std::string size = memory_shortage(run, model, {}, need(run, 1, 1) - 1);
  EXPECT_NE(size.find("too large for this machine"), std::string::npos) << size;
}

}  // namespace
}  // namespace weft::train
