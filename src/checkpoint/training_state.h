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
#include "base/checkpoint_ranks.h"
#include "base/file_system.h"
#include "base/manifest.h"
#include "base/tensor_part.h"
#include "model/nodes.h"

namespace weft::checkpoint {

// A whole tensor that belongs to a parameter. `state` names what it is: kParameterValue, or an optimizer's own word
// ("first_moment").
struct StateTensor {
  std::string state;
  std::string path;   // the parameter's
  at::Tensor tensor;  // any device; views into flat buffers are fine
};
inline constexpr const char* kParameterValue = "value";

// What a rank holds of such a tensor: under tensor parallelism a slice of it (part.box), under ZeRO a shard of that
// (part.range, counted row-major in the slice).
struct HeldTensor {
  std::string state;
  std::string path;
  std::vector<int64_t> shape;  // of the whole tensor
  TensorPart part;
  at::Tensor values;  // the part's elements, in any shape of as many; any device; views are fine
};
[[nodiscard]] std::vector<HeldTensor> held_whole(const std::vector<StateTensor>& tensors);

struct TrainingState {
  Manifest manifest;                         // all but files and tensors; rank 0's counts, but each has its step
  const model::ModelNode* model = nullptr;   // written as model.toml, so that a checkpoint stands alone; rank 0's
  std::map<std::string, std::string> texts;  // more small files: name -> contents ("config.toml"); rank 0's
  // Of this rank. All ranks' parts together fill each tensor once: what several ranks hold alike (replicas; what every
  // tensor rank holds whole), one of them brings, and the others an empty range or nothing.
  std::vector<HeldTensor> tensors;
};

// Writes CHECKPOINTS/step-N whole or not at all, then removes what is neither among the `keep` newest nor the best. All
// ranks call it, with the same step, folder and `keep`; each writes what it holds. Makes the folder `checkpoints` where
// it is missing; its parent exists. Returns the step's folder. Errors as write_checkpoint_together's: on all ranks.
std::filesystem::path save_training_state(const std::filesystem::path& checkpoints, const TrainingState& state,
                                          int64_t keep, const CheckpointRanks& ranks = {},
                                          FileSystem& file_system = FileSystem::real());

// Copies a checkpoint's tensors, whatever layout wrote them, into those given. What the ranks ask for together must be
// the tensors stored, of their shapes and element types; a rank asks for every part that it holds, replicated or not.
// All ranks call it, each with a reader of the same folder. Nothing is written before all are found to fit. InputError,
// on all ranks, names the checkpoint and each tensor that is missing, unexpected, misshapen or damaged.
void load_training_state(CheckpointReader& reader, const std::vector<HeldTensor>& tensors,
                         const CheckpointRanks& ranks = {});

inline constexpr const char* kModelFile = "model.toml";

}  // namespace weft::checkpoint
