#include "train/run_folder.h"

#include <fstream>
#include <limits>
#include <unistd.h>

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "train/line_log.h"

namespace weft::train {
namespace {

class Folder : public ::testing::Test {
 protected:
  Folder() {
    path_ = std::filesystem::temp_directory_path() / ("weft_run_folder_" + std::to_string(getpid()));
    std::filesystem::remove_all(path_);
  }
  ~Folder() override { std::filesystem::remove_all(path_); }
  std::filesystem::path path_;
};

std::string refusal(const std::filesystem::path& path, RunFolder::Start start) {
  try {
    const RunFolder folder(path, start);
    return "";
  } catch (const InputError& error) {
    return error.what();
  }
}

TEST_F(Folder, NewRunsMakeItWithThoseAbove) {
  const RunFolder folder(path_ / "a" / "b", RunFolder::Start::kNew);
  EXPECT_TRUE(std::filesystem::is_directory(path_ / "a" / "b"));
}

TEST_F(Folder, WhatIsNotEmptyIsRefused) {
  std::filesystem::create_directory(path_);
  std::ofstream(path_ / "notes.txt") << "mine";
  EXPECT_NE(refusal(path_, RunFolder::Start::kNew).find("--resume"), std::string::npos);
  EXPECT_EQ(read_file(path_ / "notes.txt"), "mine");
  EXPECT_NE(refusal(path_ / "notes.txt", RunFolder::Start::kNew).find("is not a folder"), std::string::npos);
}

TEST_F(Folder, FailedStartsLeaveNothing) {
  { const RunFolder folder(path_, RunFolder::Start::kNew); }
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(Folder, ALockThatAKilledStartLeftIsNoObstacle) {
  std::filesystem::create_directory(path_);
  std::ofstream(path_ / "lock") << "1";
  EXPECT_EQ(refusal(path_, RunFolder::Start::kNew), "");
}

TEST_F(Folder, OnlyRunsAreResumed) {
  EXPECT_NE(refusal(path_, RunFolder::Start::kResume).find("nothing to resume"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(Folder, SecondProcessIsKeptOutAndNamed) {
  std::filesystem::create_directory(path_);
  std::ofstream(path_ / "config.toml") << "";
  const RunFolder first(path_, RunFolder::Start::kResume);
  const std::string reason = refusal(path_, RunFolder::Start::kResume);
  EXPECT_NE(reason.find("in use by process " + std::to_string(getpid())), std::string::npos) << reason;
}

TEST_F(Folder, LockEndsWithItsHolder) {
  std::filesystem::create_directory(path_);
  std::ofstream(path_ / "config.toml") << "";
  { const RunFolder first(path_, RunFolder::Start::kResume); }
  EXPECT_EQ(refusal(path_, RunFolder::Start::kResume), "");
}

std::vector<int64_t> steps_in(const std::filesystem::path& path) {
  std::vector<int64_t> steps;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) steps.push_back(parse_json(line, "line")["step"].get<int64_t>());
  return steps;
}

OrderedJson row(int64_t step) { return {{"step", step}, {"loss", 1.5}}; }

TEST_F(Folder, LogKeepsEachStepOnceAfterAResume) {
  std::filesystem::create_directory(path_);
  const std::filesystem::path log = path_ / "metrics.jsonl";
  {
    LineLog lines(log);
    for (int64_t step = 1; step <= 5; ++step) lines.append(row(step));
  }
  {
    LineLog lines(log, 3);
    for (int64_t step = 4; step <= 6; ++step) lines.append(row(step));
  }
  EXPECT_EQ(steps_in(log), (std::vector<int64_t>{1, 2, 3, 4, 5, 6}));
}

TEST_F(Folder, LogDropsATornLine) {
  std::filesystem::create_directory(path_);
  const std::filesystem::path log = path_ / "metrics.jsonl";
  std::ofstream(log) << R"({"step":1})" << '\n' << R"({"step":2,"lo)";
  LineLog lines(log, 2);
  lines.append(row(2));
  EXPECT_EQ(steps_in(log), (std::vector<int64_t>{1, 2}));
}

TEST_F(Folder, LogWritesWhatIsNoNumberAsNull) {
  std::filesystem::create_directory(path_);
  LineLog lines(path_ / "metrics.jsonl");
  lines.append({{"step", 1}, {"loss", std::numeric_limits<double>::quiet_NaN()}});
  EXPECT_EQ(read_file(path_ / "metrics.jsonl"), "{\"step\":1,\"loss\":null}\n");
}

}  // namespace
}  // namespace weft::train
