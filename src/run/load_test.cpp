#include "run/load.h"

#include <filesystem>
#include <fstream>
#include <functional>

#include <gtest/gtest.h>

#include "model/describe.h"
#include "run/layout.h"

namespace weft::run {
namespace {

const std::string kBase = R"(
[model]
family = "gpt2"
layers = 2
heads = 4
width = 32
positions = 64
[data]
sources = ["text.txt"]
tokenizer = "bytes"
context = 64
[train]
global_batch = 12
)";

class LoadTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / ("weft_load_test_" + std::to_string(getpid()));
    std::filesystem::create_directories(folder_);
    std::ofstream(folder_ / "text.txt") << "some text";
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  LoadedRun load(const std::string& text, const std::vector<std::string>& assignments = {}) {
    std::ofstream(folder_ / "run.toml") << text;
    return load_run(folder_ / "run.toml", assignments);
  }
  std::string error_of(const std::string& text, const std::vector<std::string>& assignments = {}) {
    try {
      LoadedRun loaded = load(text, assignments);
      set_vocabulary(loaded.node, 256);
    } catch (const InputError& error) {
      return error.what();
    }
    return "(no error)";
  }
  std::filesystem::path folder_;
};

TEST_F(LoadTest, AFamilyMakesTheTreeAndOriginsSayWhere) {
  LoadedRun loaded = load(kBase, {"model.width=64", "train.steps=7"});
  set_vocabulary(loaded.node, 256);
  EXPECT_EQ(loaded.node.model.width, 64);
  EXPECT_EQ(loaded.node.model.vocabulary, 256);
  EXPECT_EQ(loaded.node.model.layer.mlp->kind(), "gelu");
  EXPECT_EQ(loaded.node.run.name, "run");
  EXPECT_EQ(loaded.node.data.sources[0], (folder_ / "text.txt").string());
  EXPECT_EQ(loaded.origins.at("model.width"), "--set model.width");
  EXPECT_EQ(loaded.origins.at("train.steps"), "--set train.steps");
  EXPECT_EQ(loaded.origins.at("model.layer.mlp.kind"), "family gpt2");
  EXPECT_NE(loaded.origins.at("model.layers").find("run.toml:4:1"), std::string::npos);
  EXPECT_FALSE(loaded.origins.contains("train.seed"));
}

TEST_F(LoadTest, ANodeOfTheFamilysTreeIsReplaced) {
  const LoadedRun loaded = load(kBase + "[model.layer.mlp]\nkind = 'swiglu'\nffn = 96\n");
  EXPECT_EQ(loaded.node.model.layer.mlp->kind(), "swiglu");
  EXPECT_NE(loaded.origins.at("model.layer.mlp.ffn").find("run.toml"), std::string::npos);
  EXPECT_FALSE(loaded.origins.contains("model.layer.mlp.bias")) << "the new node's own default, not the family's";
}

TEST_F(LoadTest, AModelFromElsewhereStartsAfresh) {
  std::ofstream(folder_ / "low.toml") << kBase;
  const std::string message = error_of("base = 'low.toml'\n[model]\nhf = 'nowhere'\n");
  EXPECT_NE(message.find("nowhere/config.json"), std::string::npos) << message;
}

TEST_F(LoadTest, TheDumpedTreeIsARunFile) {
  LoadedRun loaded = load(kBase, {"train.frozen=['embedding.*']"});
  set_vocabulary(loaded.node, 256);
  const std::string text = config::dump(loaded.node);
  const LoadedRun again = load(text);
  EXPECT_TRUE(config::differences(loaded.node, again.node).empty()) << text;
}

// One row = what is added to the file or assigned, and what must be said.
TEST_F(LoadTest, MistakesAreNamed) {
  const std::vector<std::pair<std::string, std::string>> rows = {
      {"model.family=gpt3", "model.family: there is no family \"gpt3\", did you mean gpt2?"},
      {"model.widht=3", "model.widht: unknown key of family gpt2, did you mean width?"},
      {"data.context=65", "data.context is 65, longer than the model's 64 positions (model.positions)"},
      {"model.heads=5", "model.width is 32, which 5 heads (model.heads) do not divide"},
      {"train.precision=fp16", "train.precision: is \"fp16\"; it must be one of \"fp32\", \"bf16\""},
      {"parallel.tesnor=2", "parallel.tesnor: unknown key, did you mean tensor?"},
      {"parallel.tensor=5", "parallel.tensor is 5, but the model has 4 heads (model.heads)"},
      {"parallel.tensor=0", "parallel.tensor: is 0; it must be at least 1"},
      {"parallel.sequence=true", "it needs parallel.tensor > 1"},
      {"parallel.context=9", "at most 8 ranks can divide them"},
      {"parallel={fsdp=2, zero=0}", "divides nothing over parallel.fsdp ranks"},
      {"train={strict=true, precision='bf16'}", "train.strict needs train.precision = \"fp32\""},
      {"model.vocabulary=100", "model.vocabulary is 100, but the tokenizer has 256 tokens"},
      {"model.hf=nowhere", "nowhere/config.json"},
      {"model={hf='nowhere', family='llama'}", "model.hf and model.family both name the model"},
      {"train.steps=1000000000000", "(no error)"},
      {"train.global_batch=1000000000", "(no error)"},
      {"train={steps=1000000000000, global_batch=1000000000}", "6.4e+22 tokens; at most 1e+18 can be counted"},
      {"train.steps=0", "train.steps: is 0; it must be at least 1"},
  };
  for (const auto& [assignment, message] : rows) {
    EXPECT_NE(error_of(kBase, {assignment}).find(message), std::string::npos)
        << assignment << " said: " << error_of(kBase, {assignment});
  }
  EXPECT_NE(error_of("[model]\nfamily = 'llama'\n").find("model.width is not set"), std::string::npos);
  EXPECT_NE(error_of("[model]\nhf = 'nowhere'\n").find("nowhere/config.json"), std::string::npos);
}

TEST_F(LoadTest, MicroBatchesFollowFromEitherKey) {
  const auto cut = [&](std::vector<std::string> assignments) {
    const RunNode run = load(kBase, assignments).node;
    return batch_cut(run, run.train.global_batch);
  };
  EXPECT_EQ(cut({}).micro_batches, 1);
  EXPECT_EQ(cut({"train.micro_batch=4"}).micro_batches, 3);
  EXPECT_EQ(cut({"train.micro_batch=5"}).micro_batches, 3);
  EXPECT_EQ(cut({"train.micro_batch=4", "schedule.micro_batches=3"}).micro_batches, 3);
  const BatchCut uneven = cut({"schedule.micro_batches=5"});
  std::vector<int64_t> ends;
  for (int64_t i = 0; i < 5; ++i) ends.push_back(uneven.sequences(0, i).end);
  EXPECT_EQ(ends, (std::vector<int64_t>{3, 6, 8, 10, 12}));
  EXPECT_EQ(cut({"schedule.micro_batches=15"}).micro_batches, 12);
  const BatchCut ranks = cut({"parallel={data=5, fsdp=1}", "train.micro_batch=2"});
  EXPECT_EQ(ranks.micro_batches, 2);
  EXPECT_EQ(ranks.sequences(0, 1), (Range{2, 3}));
  EXPECT_EQ(ranks.sequences(4, 0), (Range{10, 11}));
  EXPECT_EQ(ranks.sequences(4, 1), (Range{11, 12}));
  EXPECT_NE(error_of(kBase, {"train.micro_batch=4", "schedule.micro_batches=2"}).find("give one of the two"),
            std::string::npos);
}

TEST_F(LoadTest, AResumeRefusesWhatChangesNumbersByName) {
  const RunNode before = load(kBase).node;
  EXPECT_EQ(refusal(before, load(kBase, {"train.steps=5", "train.threads=2", "checkpoint.every=3"}).node), "");
  const std::string message = refusal(before, load(kBase, {"model.layers=3", "optimizer.clip=2", "train.seed=4"}).node);
  EXPECT_EQ(message,
            "a resumed run may not change:\n  model.layers: was 2, now 3\n  optimizer.clip: was 1.0, now 2.0\n  "
            "train.seed: was 1, now 4");
}

TEST_F(LoadTest, TheParametrisationsMultipliersAreWrittenIntoTheModel) {
  const std::vector<std::string> mup = {"parametrisation={kind='mup', base_width=16, output_multiplier=3.0}"};
  const LoadedRun run = load(kBase, mup);
  const double width = static_cast<double>(run.node.model.width.get());
  EXPECT_EQ(run.node.model.head->multiplier, 3.0 / (width / 16));
  EXPECT_EQ(run.origins.at("model.head.multiplier"), "parametrisation mup");
  const LoadedRun again = load(config::dump(run.node), {});
  EXPECT_TRUE(config::differences(run.node, again.node).empty()) << "the dumped tree is the run";
  std::vector<std::string> other = mup;
  other.emplace_back("model.head.multiplier=1.0");
  try {
    (void)load(kBase, other);
    FAIL();
  } catch (const InputError& error) {
    EXPECT_NE(std::string(error.what()).find("model.head.multiplier is 1.0, but parametrisation.kind"),
              std::string::npos)
        << error.what();
  }
}

TEST_F(LoadTest, FrozenPatternsMatchPaths) {
  const TrainNode train = load(kBase, {"train.frozen=['embedding.*', 'layers.?.mlp.*']"}).node.train;
  EXPECT_TRUE(frozen(train, "embedding.weight"));
  EXPECT_TRUE(frozen(train, "layers.1.mlp.up.weight"));
  EXPECT_FALSE(frozen(train, "layers.11.mlp.up.weight"));
  EXPECT_FALSE(frozen(train, "final_norm.weight"));
}

}  // namespace
}  // namespace weft::run
