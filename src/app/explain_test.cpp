#include "app/explain.h"

#include <gtest/gtest.h>

#include "base/json.h"

namespace weft::app {
namespace {

Explanation explained(const std::string& recipe, const std::vector<std::string>& assignments = {}) {
  Explanation explanation;
  explanation.run = run::load_run("recipes/" + recipe + ".toml", assignments);
  describe(explanation);
  return explanation;
}

const OrderedJson* field(const OrderedJson& answer, const std::string& path) {
  for (const OrderedJson& one : answer.at("fields")) {
    if (one.at("path") == path) return &one;
  }
  return nullptr;
}

// The published sizes of the two models.
TEST(Explain, PublishedModelsHaveTheirParameters) {
  EXPECT_EQ(explanation_json(explained("gpt2-124m"), Table::kWithout).at("parameters"), 124'439'808);
  EXPECT_EQ(explanation_json(explained("smollm2-135m"), Table::kWithout).at("parameters"), 134'515'008);
}

TEST(Explain, TheTableHoldsEveryParameterOnceWithItsGroup) {
  const OrderedJson answer = explanation_json(
      explained("llama-nano", {"train.frozen=['layers.0.*']", "train.steps=50", "phases=[]"}), Table::kWith);
  int64_t elements = 0;
  for (const OrderedJson& row : answer.at("table")) {
    int64_t product = 1;
    for (const OrderedJson& size : row.at("shape")) product *= size.get<int64_t>();
    elements += product;
    const std::string path = row.at("path");
    const bool matrix = row.at("shape").size() == 2;
    EXPECT_EQ(row.at("group"), path.starts_with("layers.0.") ? "frozen" : matrix ? "decay" : "no_decay") << path;
    EXPECT_EQ(row.at("init").get<std::string>().starts_with("normal "), matrix) << path;
  }
  EXPECT_EQ(elements, answer.at("parameters"));
  EXPECT_EQ(answer.at("stable_tokens"), 50 * 12 * 64) << "nothing decays";
}

TEST(Explain, EveryFieldSaysWhereItCameFrom) {
  const OrderedJson answer = explanation_json(explained("llama-nano", {"train.seed=9"}), Table::kWithout);
  EXPECT_FALSE(answer.contains("table"));
  EXPECT_EQ(field(answer, "train.seed")->at("value"), 9);
  EXPECT_EQ(field(answer, "train.seed")->at("origin"), "--set train.seed");
  EXPECT_EQ(field(answer, "train.global_batch")->at("origin"), "recipes/shakespeare.toml:23:1") << "the base file";
  EXPECT_EQ(field(answer, "train.precision")->at("origin"), "default");
  EXPECT_EQ(field(answer, "model.vocabulary")->at("origin"), "data.tokenizer");
  EXPECT_EQ(field(answer, "model.layer.mlp.kind")->at("origin"), "family llama");
  EXPECT_TRUE(field(answer, "train.micro_batch")->at("value").is_null());
  for (const OrderedJson& one : answer.at("fields")) EXPECT_NE(one.at("text"), "") << one.at("path");
}

TEST(Explain, DataThatIsNotThereLeavesTheSizeUnknown) {
  const Explanation explanation = explained("shakespeare", {"data.sources=['nowhere.txt']"});
  EXPECT_FALSE(explanation.description.has_value());
  EXPECT_NE(explanation.unknown.find("nowhere.txt"), std::string::npos) << explanation.unknown;
  EXPECT_TRUE(explanation_json(explanation, Table::kWithout).at("parameters").is_null());
}

}  // namespace
}  // namespace weft::app
