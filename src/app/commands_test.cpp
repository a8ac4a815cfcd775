#include "app/commands.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace weft::app {
namespace {

std::string refusal(const std::vector<std::string>& words) {
  try {
    (void)parse_command_line(words);
  } catch (const InputError& error) {
    return error.what();
  }
  return "(accepted)";
}

Invocation accepted(const std::vector<std::string>& words) {
  Parsed parsed = parse_command_line(words);
  EXPECT_TRUE(parsed.invocation.has_value());
  return *parsed.invocation;
}

TEST(Commands, EachHasTextExampleAndHelp) {
  for (const CommandDefinition& command : commands()) {
    SCOPED_TRACE(command.name);
    EXPECT_FALSE(command.text.empty());
    EXPECT_NE(command.example.find("weft " + command.name), std::string::npos);
    const std::string own = help(command, false);
    EXPECT_NE(own.find(command.example), std::string::npos);
    for (const OptionDefinition& option : command.options) {
      EXPECT_NE(own.find(option.name), std::string::npos);
      EXPECT_FALSE(option.text.empty());
    }
    EXPECT_NE(overview(false).find(command.text), std::string::npos);
  }
}

TEST(Commands, LaunchTakesWhatStandsBehindTheDashesAsItIs) {
  const std::vector<std::string> inner = {"train", "run.toml", "--steps", "3", "--json", "--", "--ranks"};
  std::vector<std::string> words = {"launch", "--ranks", "2", "--"};
  words.insert(words.end(), inner.begin(), inner.end());
  const Invocation launch = accepted(words);
  EXPECT_EQ(launch.texts("-- train RUN.toml ..."), inner);
  EXPECT_EQ(launch.integer("--ranks"), 2);
  EXPECT_FALSE(launch.json()) << "that is the inner command's";
  EXPECT_TRUE(accepted({"launch", "--json", "--ranks", "2", "--threads", "--", "train", "x"}).json());
  EXPECT_NE(refusal({"launch", "--ranks", "2", "train", "run.toml"}).find("-- train RUN.toml ... is missing"),
            std::string::npos);
  EXPECT_NE(refusal({"launch", "--ranks", "2", "--"}).find("is missing"), std::string::npos);
  EXPECT_NE(refusal({"launch", "--", "train", "run.toml"}).find("--ranks is missing"), std::string::npos);
}

TEST(Commands, ValuesArriveAsGiven) {
  const Invocation train = accepted({"train", "--set", "data.sources=[\"my text.txt\", \"b.txt\"]", "run.toml", "--set",
                                     "train.steps=3", "--resume", "--seed", "7", "--json"});
  EXPECT_EQ(train.text("RUN.toml"), "run.toml");
  EXPECT_EQ(train.texts("--set"),
            (std::vector<std::string>{"data.sources=[\"my text.txt\", \"b.txt\"]", "train.steps=3"}));
  EXPECT_TRUE(train.flag("--resume"));
  EXPECT_TRUE(train.json());
  EXPECT_EQ(train.integer("--seed"), 7);
  EXPECT_FALSE(train.given("--steps"));

  const Invocation generate = accepted({"generate", "DIR", "--token-ids", "5,0,31", "--temperature=0"});
  EXPECT_EQ(generate.integers("--token-ids"), (std::vector<int64_t>{5, 0, 31}));
  EXPECT_EQ(generate.number("--temperature"), 0);
  EXPECT_EQ(generate.number("--top-p"), 1) << "the standard value";
  EXPECT_EQ(accepted({"generate", "DIR", "--prompt", "[a, b]"}).text("--prompt"), "[a, b]");
  EXPECT_EQ(accepted({"generate", "DIR", "--prompt", ""}).text("--prompt"), "") << "an empty prompt is one";
  EXPECT_EQ(accepted({"generate", "DIR", "--prompt=--x"}).text("--prompt"), "--x");
  EXPECT_EQ(accepted({"checkpoint", "list", "a b"}).text("DIR"), "a b");
}

TEST(Commands, MistakesAreNamed) {
  struct Row {
    std::vector<std::string> words;
    std::string message;
  };
  const std::vector<Row> rows = {
      {{"trian", "run.toml"}, "there is no command \"trian\", did you mean train?"},
      {{"checkpoint", "DIR"}, "weft checkpoint needs one more word: checkpoint list, checkpoint verify"},
      {{"train"}, "RUN.toml is missing: the run file. `weft train --help` says more"},
      {{"train", "a.toml", "b.toml"}, "\"b.toml\" is one argument too many"},
      {{"train", "a.toml", "--stpes", "3"}, "there is no option --stpes, did you mean --steps?"},
      {{"train", "a.toml", "--steps", "many"}, "--steps: \"many\" is not an integer, at least 1"},
      {{"train", "a.toml", "--steps", "0"}, "--steps: \"0\" is not an integer, at least 1"},
      {{"train", "a.toml", "--steps", "3", "--steps", "4"}, "--steps is given twice"},
      {{"train", "a.toml", "--steps"}, "--steps"},
      {{"generate", "DIR"}, "give one of --prompt and --token-ids"},
      {{"generate", "DIR", "--prompt", "a", "--token-ids", "1"}, "give one of --prompt and --token-ids"},
      {{"generate", "DIR", "--token-ids", "1,,2"}, "--token-ids: \"\" is not an integer"},
      {{"generate", "DIR", "--token-ids", "1,2,"}, "--token-ids: \"\" is not an integer"},
      {{"generate", "DIR", "--prompt", "a", "--top-p", "1.5"},
       "--top-p: \"1.5\" is not a number, at least 0, at most 1"},
      {{"generate", "DIR", "--prompt", "a", "--temperature", "nan"}, "\"nan\" is not a number"},
      {{"convert", "a", "b", "--dtype", "fp64"}, "--dtype: \"fp64\" is not one of fp32, bf16, fp16"},
      {{"tokenize"}, "--tokenizer is missing"},
      {{}, "give a command"},
  };
  for (const Row& row : rows) EXPECT_NE(refusal(row.words).find(row.message), std::string::npos) << refusal(row.words);
}

TEST(Commands, HelpIsPrintedWhereverItStands) {
  EXPECT_NE(parse_command_line({"--help"}).print.find("checkpoint verify"), std::string::npos);
  EXPECT_NE(parse_command_line({"train", "x.toml", "--help"}).print.find("Example"), std::string::npos);
  EXPECT_NE(parse_command_line({"help", "train"}).print.find("Example"), std::string::npos);
  EXPECT_NE(parse_command_line({"--version"}).print.find("weft "), std::string::npos);
  EXPECT_EQ(overview(false).find('\033'), std::string::npos) << "colour only where asked";
}

}  // namespace
}  // namespace weft::app
