// The [data] section of a run: what a model learns from.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "config/node.h"

namespace weft::data {

struct DataNode : config::Node {
  WEFT_NODE(DataNode, "data")
  void fields(config::FieldList& list) override;

  std::vector<std::string> sources;
  std::vector<double> weights;
  std::optional<std::string> tokenizer;
  config::Required<int64_t> context;
  std::string documents = "join";
  bool bos = false;
  config::RealOrTexts validation = 0.1;
};

// Finds every relative path of the node (sources, validation files, the tokenizer's folder) in the first of the folders
// in which something of that name is or a glob matches, and makes it absolute, so that the node means the same wherever
// the program runs later. A path that is nowhere stays below the first folder; opening it says that it is missing.
void make_paths_absolute(DataNode& node, const std::vector<std::filesystem::path>& folders);

}  // namespace weft::data
