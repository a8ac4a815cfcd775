#include "app/explain.h"

#include <chrono>
#include <cmath>
#include <numeric>

#include <gtest/gtest.h>

#include "base/json.h"
#include "run/timetable.h"

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

// The published run, of which neither tokenizer nor data are here.
TEST(Explain, Xmodel25IsThePublishedRun) {
  const auto start = std::chrono::steady_clock::now();
  const OrderedJson answer = explanation_json(explained("xmodel-2.5"), Table::kWith);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(1));
  EXPECT_EQ(answer.at("parameters"), 1'350'059'520);
  EXPECT_EQ(answer.at("parameters_without_embedding"), 1'151'485'440);
  EXPECT_EQ(answer.at("stable_tokens"), 270'000LL * 480 * 3712 + 260'000LL * 960 * 3712);
  EXPECT_NEAR(answer.at("stable_tokens").get<double>(), 1.408e12, 0.0005e12);
  for (const OrderedJson& row : answer.at("table")) {
    const bool tied = row.at("class") == "tied";
    const double rate = tied ? 0.01 : 0.01 / 6;
    EXPECT_NEAR(row.at("rate").get<double>(), rate, 1e-12) << row;
    EXPECT_NEAR(row.at("decay").get<double>(), row.at("class") == "vector" ? 0 : 0.1 * rate, 1e-12) << row;
    EXPECT_NEAR(row.at("update").get<double>(), rate * std::sqrt(0.1 / 1.9), 1e-12) << row;
    EXPECT_EQ(row.at("epsilon"), 1e-8) << row;
  }
  const OrderedJson& last = answer.at("phases").at(4);
  EXPECT_EQ(answer.at("phases").size(), 5U);
  EXPECT_EQ(last.at("first_step"), 550'001);
  EXPECT_EQ(last.at("tokens"), 20'000LL * 960 * 3776);
  EXPECT_EQ(last.at("optimizer"), "muon");
  EXPECT_EQ(last.at("rates").at("tied"), (std::vector<double>{0.0625, 0.00625}));
  const auto value = [&](const std::string& path) { return field(answer, path)->at("value").get<double>(); };
  EXPECT_EQ(value("model.embedding.multiplier"), 12);
  EXPECT_NEAR(value("model.layer.mlp_residual.multiplier"), 1.4 / std::sqrt(48), 1e-15);
  EXPECT_NEAR(value("model.head.multiplier"), 1.0 / 6, 1e-15);
  EXPECT_EQ(value("model.layer.attention.scale"), 1.0 / 64);
  EXPECT_EQ(field(answer, "model.head.multiplier")->at("origin"), "parametrisation xmodel");
}

// Each mixture has all sources and, as published, adds up to 1 within rounding.
TEST(Explain, Xmodel25sMixturesAddUp) {
  for (const std::string recipe : {"xmodel-2.5", "xmodel-2.5-long"}) {
    const Explanation explanation = explained(recipe);
    const recipe::Timetable timetable = run::timetable_of(explanation.run.node);
    for (const recipe::Stretch& stretch : timetable.stretches()) {
      EXPECT_EQ(stretch.weights.size(), 14U);
      EXPECT_NEAR(std::accumulate(stretch.weights.begin(), stretch.weights.end(), 0.0), 1, 2e-3);
    }
    EXPECT_EQ(timetable.covered_steps(), explanation.run.node.train.steps);
  }
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
