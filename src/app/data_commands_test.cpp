#include <filesystem>
#include <sstream>
#include <unistd.h>

#include <gtest/gtest.h>

#include "app/commands.h"
#include "app/deciding_commands.h"
#include "base/json.h"

namespace weft::app {
namespace {

std::string output_of(ExitCode (*body)(const Invocation&), const std::vector<std::string>& words) {
  testing::internal::CaptureStdout();
  EXPECT_EQ(body(parse_command_line(words).invocation.value()), ExitCode::kDone);
  std::fflush(stdout);
  return testing::internal::GetCapturedStdout();
}

TEST(DataCommands, SamplesAreALineEachAndContinueAnywhere) {
  const std::string all =
      output_of(run_data_samples, {"data", "samples", "recipes/shakespeare.toml", "--count", "3", "--json"});
  const std::string last =
      output_of(run_data_samples, {"data", "samples", "recipes/shakespeare.toml", "--first", "2", "--json"});
  EXPECT_EQ(all.substr(all.size() - last.size()), last);
  std::istringstream lines(all);
  int64_t count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    const Json sample = parse_json(line, "a sample");
    EXPECT_EQ(sample.at("sample"), count);
    ASSERT_EQ(sample.at("tokens").size(), 64U);
    for (size_t i = 0; i + 1 < 64; ++i) EXPECT_EQ(sample.at("targets")[i], sample.at("tokens")[i + 1]);
  }
  EXPECT_EQ(count, 3);
}

TEST(DataCommands, ABuiltStoreTrainsAsTheTextDoes) {
  const auto folder = std::filesystem::temp_directory_path() / ("weft-data-commands-" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  const std::string prefix = (folder / "corpus").string();
  const Json built = parse_json(output_of(run_data_build, {"data", "build", "recipes/data/tiny_shakespeare.txt",
                                                           "--tokenizer", "characters", "--out", prefix, "--json"}),
                                "the answer");
  EXPECT_EQ(built.at("tokens"), 1115394);
  EXPECT_EQ(built.at("documents"), 1);
  EXPECT_EQ(built.at("files").size(), 3U);
  const auto tokens = [](const std::string& line) { return parse_json(line, "a sample").at("tokens"); };
  EXPECT_EQ(tokens(output_of(run_data_samples,
                             {"data", "samples", "recipes/shakespeare.toml", "--json", "--set",
                              "data.sources=" + prefix + ".idx", "--set", "data.tokenizer=" + prefix + ".tokenizer"})),
            tokens(output_of(run_data_samples, {"data", "samples", "recipes/shakespeare.toml", "--json"})));
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace weft::app
