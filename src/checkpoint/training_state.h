// The state of a training run on disk: parameters, what the optimizer keeps, and where the run stands.
// docs/checkpoints.md.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "base/checkpoint_file.h"
#include "base/file_system.h"
#include "base/manifest.h"
#include "model/nodes.h"

namespace weft::checkpoint {

// A tensor that belongs to a parameter. `state` names what it is: kParameterValue, or an optimizer's own word
// ("first_moment").
struct StateTensor {
  std::string state;
  std::string path;   // the parameter's
  at::Tensor tensor;  // any device; views into flat buffers are fine
};
inline constexpr const char* kParameterValue = "value";

struct TrainingState {
  Manifest manifest;                         // all but files and tensors
  const model::ModelNode* model = nullptr;   // written as model.toml, so that a checkpoint stands alone
  std::map<std::string, std::string> texts;  // more small files: name -> contents ("config.toml")
  std::vector<StateTensor> tensors;
};

// Writes CHECKPOINTS/step-N whole or not at all, then removes what is neither among the `keep` newest nor the best.
// Makes the folder `checkpoints` where it is missing; its parent exists. Returns the step's folder.
std::filesystem::path save_training_state(const std::filesystem::path& checkpoints, const TrainingState& state,
                                          int64_t keep, FileSystem& file_system = FileSystem::real());

// Copies a checkpoint's tensors into those given, which must be exactly those stored, of their shapes and element
// types. Nothing is written before all are found to fit. InputError names the checkpoint and each tensor that is
// missing, unexpected, misshapen or damaged.
void load_training_state(CheckpointReader& reader, const std::vector<StateTensor>& tensors);

// The names of a checkpoint's files.
inline constexpr const char* kParametersFile = "parameters.safetensors";
inline constexpr const char* kOptimizerFile = "optimizer.safetensors";
inline constexpr const char* kModelFile = "model.toml";

}  // namespace weft::checkpoint
