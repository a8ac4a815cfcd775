#include <algorithm>
#include <filesystem>
#include <functional>
#include <unistd.h>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "app/deciding_commands.h"
#include "base/file.h"
#include "base/json.h"
#include "base/trace.h"
#include "schedule/text_form.h"

namespace weft::app {
namespace {

using Words = std::vector<std::string>;

std::string output_of(ExitCode (*body)(const Invocation&), const Words& words, ExitCode expected = ExitCode::kDone) {
  const Parsed parsed = parse_command_line(words);
  testing::internal::CaptureStdout();
  ExitCode code = ExitCode::kFailed;
  try {
    code = body(*parsed.invocation);
  } catch (...) {
    (void)testing::internal::GetCapturedStdout();
    throw;
  }
  std::fflush(stdout);
  EXPECT_EQ(static_cast<int>(code), static_cast<int>(expected));
  return testing::internal::GetCapturedStdout();
}

Words words_of(const std::string& kind, int roles, int chunks, int micro_batches, const Words& more = {}) {
  Words words = {"schedule", kind, "--ranks", std::to_string(roles), "--micro-batches", std::to_string(micro_batches)};
  if (chunks > 0) words.insert(words.end(), {"--chunks", std::to_string(chunks)});
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

Json answer(Words words) {
  words.emplace_back("--json");
  return parse_json(output_of(run_schedule, words), "answer");
}

// Zero Bubble Pipeline Parallelism (arXiv 2401.10241), tables 6 and 5.
TEST(ScheduleCommand, PublishedBubbleRates) {
  struct Row {
    int roles, micro_batches;
    std::string times;
    double one_f_one_b, h1, h2;
  };
  const std::vector<Row> rows = {
      {8, 24, "18.522,18.086,9.337,0.601", 0.2431, 0.1585, 0.1083},
      {8, 64, "18.546,18.097,9.321,0.762", 0.1240, 0.0674, 0.0444},
      {8, 32, "29.802,29.428,19.530,0.577", 0.1898, 0.1045, 0.0559},
      {16, 48, "11.347,11.248,8.132,0.377", 0.2552, 0.1397, 0.0672},
      {16, 128, "11.325,11.308,8.109,0.378", 0.1251, 0.0576, 0.0266},
      {32, 128, "10.408,10.204,7.703,0.408", 0.2168, 0.1106, 0.0490},
  };
  for (const Row& row : rows) {
    for (const auto& [kind, rate] :
         {std::pair{"1f1b", row.one_f_one_b}, std::pair{"zb-h1", row.h1}, std::pair{"zb-h2", row.h2}}) {
      const Json json = answer(words_of(kind, row.roles, 0, row.micro_batches, {"--times", row.times}));
      EXPECT_NEAR(json.at("bubble_rate").get<double>(), rate, 5e-5) << kind;
      EXPECT_EQ(json.at("valid"), true);
    }
  }
}

TEST(ScheduleCommand, UnitTimes) {
  struct Row {
    std::string kind;
    int chunks;
    double span_bubble, makespan_bubble, peak;
  };
  for (const Row& row : std::vector<Row>{{"1f1b", 1, 21, 21, 8},
                                         {"zb-h1", 1, 7, 7, 8},
                                         {"zb-h2", 1, 0, 7, 15},
                                         {"zbv", 2, 0, 3.5, 8},
                                         {"dualpipe-v", 2, 7, 7, 8.5}}) {
    const Json json = answer(words_of(row.kind, 8, row.chunks, 16, {"--weight-share", "1"}));
    EXPECT_DOUBLE_EQ(json.at("span").get<double>() - 48, row.span_bubble) << row.kind;
    EXPECT_DOUBLE_EQ(json.at("makespan").get<double>() - 48, row.makespan_bubble) << row.kind;
    EXPECT_DOUBLE_EQ(json.at("bubble_rate_makespan").get<double>(), row.makespan_bubble / (48 + row.makespan_bubble));
    const std::vector<double> peaks = json.at("peak_activations");
    EXPECT_EQ(peaks.size(), 8u);
    EXPECT_EQ(*std::ranges::max_element(peaks), row.peak) << row.kind;
  }
}

TEST(ScheduleCommand, LoopedSchedulesAndTheirGathers) {
  struct Row {
    int roles, chunks, micro_batches;
    double makespan, peak_interleaved, peak_breadth_first;
    std::vector<int64_t> interleaved, breadth_first;  // gathers with 2 and 3 places
  };
  const std::vector<Row> rows = {
      {2, 2, 4, 13.5, 5, 8, {2, 2}, {2, 2}},         {4, 2, 8, 28.5, 11, 16, {2, 2}, {2, 2}},
      {4, 4, 8, 26.25, 19, 32, {12, 11}, {6, 5}},    {4, 4, 16, 50.25, 19, 64, {20, 15}, {6, 5}},
      {8, 4, 32, 101.25, 39, 128, {20, 15}, {6, 5}}, {8, 8, 16, 50.625, 71, 128, {28, 27}, {14, 13}},
  };
  for (const Row& row : rows) {
    for (const bool breadth_first : {false, true}) {
      for (const int places : {2, 3}) {
        const Json json = answer(words_of(breadth_first ? "bfs" : "interleaved", row.roles, row.chunks,
                                          row.micro_batches, {"--fsdp", std::to_string(places)}));
        SCOPED_TRACE(json.dump());
        EXPECT_DOUBLE_EQ(json.at("makespan").get<double>(), row.makespan);
        const double peak = breadth_first ? row.peak_breadth_first : row.peak_interleaved;
        EXPECT_DOUBLE_EQ(json.at("peak_activations").at(0).get<double>() * row.chunks, peak);
        const std::vector<int64_t>& gathers = breadth_first ? row.breadth_first : row.interleaved;
        EXPECT_EQ(json.at("gathers").at(0), gathers[static_cast<size_t>(places) - 2]);
        EXPECT_EQ(json.at("valid"), true);
      }
    }
  }
}

TEST(ScheduleCommand, OneAnswerHasTheKeysThatStay) {
  const Json json = answer(words_of("zb-auto", 4, 0, 8, {"--memory", "6", "--times", "1,1.2,0.8,0.1"}));
  for (const std::string key :
       {"kind", "ranks", "chunks", "micro_batches", "valid", "makespan", "span", "bubble_rate", "bubble_rate_makespan",
        "peak_activations", "gathers", "reductions", "messages", "actions"}) {
    EXPECT_TRUE(json.contains(key)) << key;
  }
  EXPECT_EQ(json.at("messages"), (std::vector<int64_t>{8, 16, 16, 8}));
  EXPECT_EQ(json.at("actions"), 4 * 8 * 3 + 2 * 2 * 3 * 8) << "computations and both ends of each message";
  EXPECT_EQ(json.at("chunks"), 1);
  EXPECT_LE(json.at("peak_activations").at(0).get<double>(), 6);
}

TEST(ScheduleCommand, APersonSeesADrawingATableAndBothBubbles) {
  const std::string text = output_of(run_schedule, words_of("1f1b", 2, 0, 2));
  EXPECT_NE(text.find("role 0   0>>>1>>>........0<<<<<<<....1<<<<<<<\n"
                      "role 1   ....0>>>0<<<<<<<1>>>1<<<<<<<\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("bubble 33.33 % of the step of 9"), std::string::npos) << text;
  size_t widest = 0;
  const std::string wide = output_of(run_schedule, words_of("zb-h2", 16, 0, 16));
  for (size_t begin = 0, end = 0; (end = wide.find('\n', begin)) != std::string::npos; begin = end + 1) {
    widest = std::max(widest, end - begin);
  }
  EXPECT_LE(widest, 120u);
  const std::string long_one = output_of(run_schedule, words_of("1f1b", 64, 0, 512));
  EXPECT_NE(long_one.find("too long to draw"), std::string::npos);
  EXPECT_NE(long_one.find("..."), std::string::npos) << "the middle rows are left out";
}

TEST(ScheduleCommand, SaysWhereAVScheduleIsTheWrongChoice) {
  const auto says = [](const std::string& kind, const std::string& times) {
    return output_of(run_schedule, words_of(kind, 8, 0, 16, {"--times", times})).find("is worse than 1f1b") !=
           std::string::npos;
  };
  EXPECT_FALSE(says("zbv", "1,1,1,0"));
  EXPECT_TRUE(says("v-min", "1,4,0.2,0"));
}

class ScheduleFiles : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / fmt::format("weft_schedule_command_{}", getpid());
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  [[nodiscard]] std::string at(const std::string& name) const { return (folder_ / name).string(); }

  Json check(const std::string& csv, ExitCode expected) {
    write_file(at("checked.csv"), csv);
    return parse_json(output_of(run_schedule_check, {"schedule", "check", at("checked.csv"), "--json"}, expected),
                      "check");
  }

  std::filesystem::path folder_;
};

TEST_F(ScheduleFiles, WhatIsWrittenIsReadAgain) {
  const Words words =
      words_of("bfs", 2, 2, 4, {"--fsdp", "2", "--csv", at("s.csv"), "--html", at("s.html"), "--trace", at("s.json")});
  const Json json = answer(words);
  const schedule::Schedule schedule = schedule::read_csv_file(at("s.csv"));
  size_t actions = 0;
  for (const schedule::RoleSchedule& role : schedule.roles) actions += role.actions.size();
  EXPECT_EQ(json.at("actions"), actions);
  EXPECT_NE(read_file(at("s.csv")).find("0SEND_F0"), std::string::npos);
  EXPECT_FALSE(read_trace(at("s.json")).measured);
  EXPECT_NE(read_file(at("s.html")).find("<title>bfs: 2 roles, 2 chunks a role, 4 micro-batches"), std::string::npos);

  Trace measured = read_trace(at("s.json"));
  measured.measured = true;
  write_trace(at("m.json"), measured);
  (void)answer(words_of("bfs", 2, 2, 4, {"--html", at("both.html"), "--measured", at("m.json")}));
  EXPECT_NE(read_file(at("both.html")).find("\"measured\""), std::string::npos);
  EXPECT_THROW((void)answer(words_of("bfs", 2, 2, 4, {"--measured", at("m.json")})), InputError);
  EXPECT_EQ(
      parse_json(output_of(run_schedule_check, {"schedule", "check", at("s.csv"), "--json"}), "check").at("valid"),
      true);
}

TEST_F(ScheduleFiles, AWrongOneIsNamedAndEndsWithTwo) {
  EXPECT_EQ(check("0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n", ExitCode::kDone).at("valid"), true);
  // Role 0 wants the gradient of micro-batch 0 before it has made what role 1 asks for first.
  const Json cycle = check("0F0,0B0,0F1,0B1\n1F1,1B1,1F0,1B0\n", ExitCode::kInput);
  EXPECT_EQ(cycle.at("valid"), false);
  EXPECT_TRUE(cycle.at("reason").is_string());
  const Json twice = check("0F0,0F0,0B0\n", ExitCode::kInput);
  EXPECT_EQ(twice.at("valid"), false);
  EXPECT_EQ(twice.at("rank"), 0);
  EXPECT_EQ(twice.at("action"), 1);
  EXPECT_THROW((void)check("0F0,0X0\n", ExitCode::kInput), InputError);
  EXPECT_THROW((void)output_of(run_schedule_check, {"schedule", "check", at("nowhere.csv")}), InputError);
}

TEST(ScheduleCommand, MistakesAreNamed) {
  struct Row {
    Words words;
    std::string message;
  };
  const std::vector<Row> rows = {
      {words_of("1f1", 2, 0, 4), "there is no kind \"1f1\", did you mean 1f1b?; kinds are gpipe, 1f1b, interleaved"},
      {{"schedule", "chek", "--ranks", "2", "--micro-batches", "4"}, "did you mean check?"},
      {words_of("1f1b", 2, 3, 4), "schedule 1f1b: 3 chunks a role, expected 1"},
      {words_of("1f1b", 2, 0, 4, {"--times", "1,1,1"}), "--times: 3 numbers, expected 4: F,B,W,C"},
      {words_of("1f1b", 2, 0, 4, {"--times", "1,-1,1,0"}), "--times: \"-1\" is not a number, at least 0"},
      {words_of("1f1b", 2, 0, 4, {"--times", "0,1,1,0"}), "the time of a forward is 0, expected a positive number"},
      {words_of("1f1b", 2, 0, 4, {"--times", "1,1,1,1e999"}), "--times: \"1e999\" is not a number"},
      {words_of("1f1b", 2, 0, 4, {"--stage-times", "1,1,1"}), "times of 3 stages, expected 2 or none"},
      {words_of("1f1b", 0, 0, 4), "--ranks: \"0\" is not an integer, at least 1"},
      {words_of("1f1b", 2, 0, 0), "--micro-batches: \"0\" is not an integer, at least 1"},
      {words_of("1f1b", 65536, 0, 1 << 24), "micro-batches on 65536 stages, expected 1 to"},
      {words_of("1f1b", 2, 0, 4, {"--memory", "4"}), "zb-auto alone has a limit"},
      {words_of("zb-auto", 2, 0, 4, {"--memory", "0.5"}), "memory = 0.5, expected at least 1"},
      {words_of("1f1b", 2, 0, 4, {"--weight-share", "1.5"}), "--weight-share: \"1.5\" is not a number"},
      {words_of("bfs", 2, 2, 4, {"--rounds", "5"}), "5 rounds, expected 1 to the number of micro-batches, 4"},
      {words_of("1f1b", 2, 0, 4, {"--run", "3"}), "interleaved alone has runs"},
      {words_of("dualpipe-v", 2, 0, 4, {"--fsdp", "1"}), "needs two whole stages, the bound is 1"},
      {{"schedule", "1f1b", "--ranks", "2"}, "--micro-batches is missing"},
      {words_of("1f1b", 2, 0, 4, {"--html", "/nowhere/at/all.html"}), "/nowhere/at/all.html"},
  };
  for (const Row& row : rows) {
    try {
      (void)output_of(run_schedule, row.words);
      ADD_FAILURE() << row.message;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(row.message), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace weft::app
