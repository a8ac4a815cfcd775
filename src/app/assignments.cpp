#include "app/assignments.h"

#include "config/node.h"

namespace weft::app {

std::vector<std::string> assignments(const Invocation& train) {
  std::vector<std::string> all = train.texts("--set");
  if (train.given("--steps")) all.push_back("train.steps=" + train.text("--steps"));
  if (train.given("--seed")) all.push_back("train.seed=" + train.text("--seed"));
  if (train.flag("--strict")) all.emplace_back("train.strict=true");
  if (train.given("--out")) all.push_back("run.directory=" + config::value_text(train.text("--out")));
  return all;
}

}  // namespace weft::app
