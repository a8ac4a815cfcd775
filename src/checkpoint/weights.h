// Where a model's weights come from, one parameter at a time, so that no second copy of the model is in memory.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <ATen/core/Tensor.h>

#include "base/checkpoint_file.h"
#include "model/description.h"
#include "model/hugging_face.h"

namespace weft::checkpoint {

class Weights {
 public:
  virtual ~Weights() = default;
  // Copies a parameter (an index of the description) into `out`: fp32, of its shape, any device. InputError names file
  // and tensor that are damaged.
  virtual void read(int parameter, const at::Tensor& out) = 0;
};

// Those of a checkpoint's folder.
class CheckpointWeights final : public Weights {
 public:
  // InputError names each parameter that is missing, unexpected or misshapen.
  CheckpointWeights(std::unique_ptr<CheckpointReader> reader, const model::ModelDescription& description);
  void read(int parameter, const at::Tensor& out) override;

 private:
  std::unique_ptr<CheckpointReader> reader_;
  std::vector<const ManifestTensor*> stored_;  // by parameter
};

// Those of a Hugging Face directory, in one file or in shards; F32, F64, F16 or BF16.
class HuggingFaceWeights final : public Weights {
 public:
  // The description is of the directory's config.json. InputError names each tensor that is missing (an untied model
  // without a head is one: transformers would give it random weights), unexpected or misshapen, and a head beside tied
  // embeddings that differs from them.
  HuggingFaceWeights(const std::filesystem::path& directory, const model::ModelDescription& description,
                     std::string_view architecture);
  void read(int parameter, const at::Tensor& out) override;

 private:
  struct Part {
    const SafetensorsFolder::Place* place = nullptr;
    size_t tensor = 0;  // index into tensors_
    int64_t row = 0;    // where the parameter begins in its tensor's rows
  };
  void find(const model::ModelDescription& description, std::vector<std::string>& problems);
  void check_others(std::vector<std::string>& problems) const;
  const at::Tensor& loaded(const Part& part);

  SafetensorsFolder folder_;
  std::vector<model::HuggingFaceTensor> tensors_;
  std::vector<Part> parts_;  // by parameter
  // The tensor read last, as (out, in) in its own type: neighbours in it are asked for one after the other.
  const SafetensorsFolder::Place* last_ = nullptr;
  at::Tensor last_tensor_;
};

}  // namespace weft::checkpoint
