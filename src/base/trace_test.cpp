#include "base/trace.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/json.h"

namespace weft {
namespace {

Trace sample() {
  Trace trace;
  trace.title = "two \"ranks\"";
  trace.measured = true;
  trace.events = {{.rank = 0,
                   .role = 0,
                   .stream = TraceStream::kCompute,
                   .operation = "forward",
                   .stage = 0,
                   .micro_batch = 3,
                   .action = "forward(stage 0, micro-batch 3)",
                   .begin = 0.25,
                   .end = 0.500000001},
                  {.rank = 5,
                   .role = 1,
                   .stream = TraceStream::kData,
                   .operation = "unshard",
                   .stage = 1,
                   .action = "unshard(stage 1)",
                   .begin = 0,
                   .end = 0}};
  trace.curves = {{5, "activations", {{0, 0.5}, {0.25, 1}}}};
  return trace;
}

TEST(Trace, WhatIsWrittenIsReadAgain) {
  const Trace trace = sample();
  const std::string text = trace_json(trace);
  const Trace read = parse_trace(text, "test");
  EXPECT_EQ(read.title, trace.title);
  EXPECT_TRUE(read.measured);
  EXPECT_EQ(read.events, trace.events);
  EXPECT_EQ(read.curves, trace.curves);
  EXPECT_EQ(trace_json(read), text);
  EXPECT_TRUE(parse_trace(trace_json({}), "test").events.empty());
}

TEST(Trace, BeginAndEndAreRoundedEachForItself) {
  Trace trace = sample();
  trace.events[1].begin = 0.4e-9;
  trace.events[1].end = 1.6e-9;
  const Trace read = parse_trace(trace_json(trace), "test");
  EXPECT_EQ(read.events[1].begin, 0);
  EXPECT_DOUBLE_EQ(read.events[1].end, 2e-9) << "so that neighbours still meet";
}

TEST(Trace, IsWhatPerfettoExpects) {
  const Json json = parse_json(trace_json(sample()), "test");
  int names = 0;
  for (const Json& event : json.at("traceEvents")) {
    if (event.at("ph") == "M") ++names;
    if (event.at("ph") != "X" || event.at("pid") != 0) continue;
    EXPECT_EQ(event.at("ts"), 250000.0);
    EXPECT_EQ(event.at("dur"), 250000.001);
    EXPECT_EQ(event.at("name"), "forward 3");
    EXPECT_EQ(event.at("args").at("micro_batch"), 3);
  }
  EXPECT_EQ(names, 4) << "two processes, two threads";
}

TEST(Trace, AnythingElseIsRefusedWithItsPlace) {
  const std::string text = trace_json(sample());
  struct Row {
    std::string from, to, message;
  };
  const std::vector<Row> rows = {
      {"\"weft trace\"", "\"other\"", "otherData: format is not"},
      {"\"version\":\"1\"", "\"version\":\"2\"", "otherData: version is not"},
      {"\"measured\"", "\"guessed\"", "source is neither"},
      {"\"tid\":3,\"ts\"", "\"tid\":9,\"ts\"", "traceEvents[5].tid: expected 0 to 4"},
      {"\"tid\":0,\"ts\"", "\"tid\":-1,\"ts\"", "traceEvents[4].tid: expected 0 to 4"},
      {"\"pid\":5,\"tid\":3,\"ts\"", "\"pid\":1048576,\"tid\":3,\"ts\"", "pid: expected 0 to 1048575"},
      {"\"dur\":250000.001", "\"dur\":-1", "traceEvents[4].dur: expected 0 to 1e11"},
      {"\"ts\":250000.000", "\"ts\":\"x\"", "ts: expected a number"},
      {"\"ts\":250000.000,\"name\"", "\"ts\":-1,\"name\"", "ts: expected 0 to 1e11"},
      {"\"ts\":0.000,\"name\"", "\"ts\":250001,\"name\"", "is before the point in front of it"},
      {"\"micro_batch\":3", "\"micro_batch\":3000000000", "micro_batch: expected 0 to"},
      {"\"ph\":\"X\"", "\"ph\":\"B\"", "expected \"X\", \"C\" or \"M\""},
      {"\"action\":\"unshard(stage 1)\",", "", "args.action: missing"},
      {"]}", "", "not JSON"},
  };
  for (const Row& row : rows) {
    std::string broken = text;
    const size_t at = broken.find(row.from);
    ASSERT_NE(at, std::string::npos) << row.from;
    broken.replace(at, row.from.size(), row.to);
    try {
      (void)parse_trace(broken, "test");
      ADD_FAILURE() << row.message;
    } catch (const InputError& error) {
      EXPECT_NE(std::string(error.what()).find(row.message), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace weft
