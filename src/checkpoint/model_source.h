// A model on disk, whatever wrote it: a run, a checkpoint, or a Hugging Face directory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/checkpoint_folder.h"
#include "checkpoint/weights.h"
#include "model/description.h"
#include "model/hugging_face.h"
#include "model/nodes.h"

namespace weft::checkpoint {

struct ModelSource {
  ModelFolder folder;
  std::unique_ptr<const model::ModelNode> model;
  model::ModelDescription description;  // of `model`
  std::unique_ptr<Weights> weights;
  std::optional<Manifest> manifest;              // of a checkpoint
  std::string architecture;                      // of a Hugging Face directory, else empty
  model::SpecialTokens tokens;                   // of a Hugging Face directory, else empty
  std::vector<std::string> warnings;             // sentences for the user
  std::vector<std::filesystem::path> tokenizer;  // folders that may hold the tokenizer's files, best first
};

// Reads everything but the weights' values, and checks that the weights are there and fit. InputError as those of
// find_model_folder, read_manifest, read_hugging_face_config and Weights.
[[nodiscard]] ModelSource open_model(const std::filesystem::path& directory);

}  // namespace weft::checkpoint
