// Models written for others: Hugging Face directories, and checkpoints that stand alone.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "base/file.h"
#include "checkpoint/stored_tensor.h"
#include "checkpoint/weights.h"
#include "model/description.h"
#include "model/hugging_face.h"
#include "model/nodes.h"

namespace weft::checkpoint {

// What transformers' save_pretrained cuts at.
inline constexpr uint64_t kMaximumShardBytes = uint64_t{50} * 1000 * 1000 * 1000;

struct WrittenModel {
  std::vector<std::string> files;
  int64_t parameters = 0;  // numbers, tied ones once
};

// Writes the tokenizer's files into a folder; empty: there is no tokenizer.
using TokenizerWriter = std::function<void(const std::filesystem::path& folder)>;

struct HuggingFaceExport {
  at::ScalarType type = at::kFloat;  // float, bfloat16 or half
  model::SpecialTokens tokens;
  uint64_t maximum_shard_bytes = kMaximumShardBytes;
  TokenizerWriter write_tokenizer;
};

// `destination` must not exist; it appears whole or not at all. InputError: it exists, no architecture of transformers
// computes the model, or a weight exceeds fp16's range (named).
WrittenModel write_hugging_face(const std::filesystem::path& destination, const model::ModelNode& tree,
                                const model::ModelDescription& description, Weights& weights,
                                const HuggingFaceExport& options, FileSystem& file_system = FileSystem::real());

// A checkpoint of step 0 in fp32 that needs no run around it: what `weft eval`, `generate` and [model] read. The same
// rules.
WrittenModel write_checkpoint(const std::filesystem::path& destination, const model::ModelNode& tree,
                              const model::ModelDescription& description, Weights& weights, uint64_t parameter_hash,
                              const TokenizerWriter& write_tokenizer, FileSystem& file_system = FileSystem::real());

// Tensors that belong to parameters (their gradients, say) under the names and in the layout of the architecture's
// files.
[[nodiscard]] NamedTensors in_hugging_face_layout(const model::ModelDescription& description,
                                                  const std::string& architecture,
                                                  const std::function<at::Tensor(int parameter)>& of);

}  // namespace weft::checkpoint
