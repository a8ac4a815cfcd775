// Every recipe against its golden: the resolved tree, the parameters with shape, initial values and optimizer group,
// the totals. A change of a default or of a family shows here as the recipes it changes.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>

#include <gtest/gtest.h>

#include "app/explain.h"
#include "base/file.h"

namespace weft::app {
namespace {

// Paths as they are seen from the root, so that a golden is the same wherever the repository lies.
void make_paths_relative(run::RunNode& run) {
  const auto relative = [](std::string& path) {
    if (path.starts_with('/')) path = std::filesystem::path(path).lexically_relative(std::filesystem::current_path());
  };
  for (std::string& source : run.data.sources) relative(source);
  if (run.data.tokenizer) relative(*run.data.tokenizer);
}

std::string golden_text(const std::filesystem::path& recipe) {
  Explanation explanation;
  explanation.run = run::load_run(recipe, {});
  describe(explanation);
  if (!explanation.description) return "without a description: " + explanation.unknown + "\n";
  make_paths_relative(explanation.run.node);
  return config::dump(explanation.run.node) + "\n# parameters\n" +
         parameters_text(explanation.run.node, *explanation.description) + "\n# totals\n" + totals_text(explanation);
}

TEST(Golden, EveryRecipeIsWhatItWas) {
  const bool update = std::getenv("WEFT_UPDATE_GOLDEN") != nullptr;
  std::set<std::string> recipes;
  for (const auto& entry : std::filesystem::directory_iterator("recipes")) {
    if (entry.path().extension() != ".toml") continue;
    const std::string name = entry.path().stem().string();
    recipes.insert(name);
    const std::filesystem::path golden = "tests/golden/" + name + ".golden";
    const std::string now = golden_text(entry.path());
    if (update) std::ofstream(golden) << now;
    ASSERT_TRUE(std::filesystem::exists(golden)) << golden << " is missing; make it with WEFT_UPDATE_GOLDEN=1 app_test";
    EXPECT_EQ(now, read_file(golden))
        << "recipes/" << name
        << ".toml resolves to something else; if that is meant, update with\n"
           "  WEFT_UPDATE_GOLDEN=1 build/release/src/app/app_test --gtest_filter='Golden.*'\n"
           "and commit the difference";
  }
  EXPECT_GE(recipes.size(), 5u);
}

}  // namespace
}  // namespace weft::app
