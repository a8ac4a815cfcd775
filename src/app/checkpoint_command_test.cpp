#include <filesystem>
#include <unistd.h>

#include <gtest/gtest.h>

#include "app/deciding_commands.h"
#include "base/checkpoint_folder.h"
#include "base/file.h"
#include "base/json.h"

namespace weft::app {
namespace {

class CheckpointCommand : public ::testing::Test {
 protected:
  void SetUp() override {
    run_ = std::filesystem::temp_directory_path() / ("weft_checkpoint_command_" + std::to_string(getpid()));
    for (const int64_t step : {10, 9}) {
      Manifest manifest;
      manifest.step = step;
      manifest.tokens = 64 * step;
      if (step == 10) manifest.validation_loss = 1.5;
      const std::filesystem::path folder = folder_of(step);
      std::filesystem::create_directories(folder);
      write_file(folder / kManifestName, manifest_text(manifest));
    }
  }
  void TearDown() override { std::filesystem::remove_all(run_); }

  std::filesystem::path folder_of(int64_t step) { return run_ / "checkpoints" / checkpoint_name(step); }

  // The command's answer and its exit code.
  std::pair<Json, ExitCode> answer(const std::string& command, const std::filesystem::path& directory) {
    const Parsed parsed = parse_command_line({"checkpoint", command, directory.string(), "--json"});
    testing::internal::CaptureStdout();
    const ExitCode code =
        command == "list" ? run_checkpoint_list(*parsed.invocation) : run_checkpoint_verify(*parsed.invocation);
    std::fflush(stdout);
    return {parse_json(testing::internal::GetCapturedStdout(), "answer"), code};
  }

  std::filesystem::path run_;
};

TEST_F(CheckpointCommand, ListsARunsStepsInOrder) {
  const auto [json, code] = answer("list", run_);
  EXPECT_EQ(code, ExitCode::kDone);
  EXPECT_EQ(json.at("steps"), (std::vector<int64_t>{9, 10}));
  EXPECT_EQ(json.at("valid"), true);
  EXPECT_TRUE(json.at("reason").is_null());
  EXPECT_EQ(json.at("checkpoints").at(1).at("validation_loss"), 1.5);
  EXPECT_EQ(json.at("checkpoints").at(1).at("tokens"), 640);
  EXPECT_EQ(answer("list", folder_of(10)).first.at("steps"), std::vector<int64_t>{10}) << "one checkpoint's folder";
}

TEST_F(CheckpointCommand, AFlippedByteIsNamedAndEndsWithTwo) {
  EXPECT_EQ(answer("verify", run_).second, ExitCode::kDone);
  const std::filesystem::path file = folder_of(9) / kManifestName;
  std::string text = read_file(file);
  text[text.size() / 2] ^= 1;
  write_file(file, text);
  const auto [json, code] = answer("verify", run_);
  EXPECT_EQ(code, ExitCode::kInput);
  EXPECT_EQ(json.at("valid"), false);
  EXPECT_NE(json.at("reason").get<std::string>().find("step-9"), std::string::npos) << json.at("reason");
  EXPECT_EQ(json.at("checkpoints").at(1).at("valid"), true) << "the other one stays valid";
}

TEST_F(CheckpointCommand, ReshardWritesTheNewestAgain) {
  const std::string to = (run_ / "whole").string();
  const auto reshard = [&](const std::string& from) {
    const Parsed parsed = parse_command_line({"checkpoint", "reshard", from, "--out", to, "--json"});
    testing::internal::CaptureStdout();
    try {
      static_cast<void>(run_checkpoint_reshard(*parsed.invocation));
    } catch (const InputError& error) {
      return testing::internal::GetCapturedStdout() + error.what();
    }
    std::fflush(stdout);
    return testing::internal::GetCapturedStdout();
  };
  EXPECT_NE(reshard((run_ / "nowhere").string()).find("nowhere: neither a checkpoint nor a run"), std::string::npos);
  EXPECT_EQ(parse_json(reshard(run_.string()), "answer").at("steps"), std::vector<int64_t>{10});
  EXPECT_EQ(read_manifest(to).tokens, 640);
  EXPECT_NE(reshard(run_.string()).find("whole: exists already"), std::string::npos);
}

TEST_F(CheckpointCommand, AFolderWithoutCheckpointsIsRefused) {
  std::filesystem::create_directories(run_ / "empty");
  for (const std::string name : {"nowhere", "empty"}) {
    const Parsed parsed = parse_command_line({"checkpoint", "list", (run_ / name).string()});
    EXPECT_THROW(static_cast<void>(run_checkpoint_list(*parsed.invocation)), InputError) << name;
  }
}

}  // namespace
}  // namespace weft::app
