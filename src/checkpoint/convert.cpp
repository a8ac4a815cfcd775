#include "checkpoint/convert.h"

#include <memory>
#include <utility>

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "base/checkpoint_file.h"
#include "base/error.h"
#include "checkpoint/training_state.h"
#include "config/toml.h"

namespace weft::checkpoint {

namespace fs = std::filesystem;

namespace {

void refuse_existing(const fs::path& destination) {
  if (fs::exists(fs::symlink_status(destination))) {
    throw InputError(fmt::format("{}: exists already; nothing is overwritten", destination.string()));
  }
  const auto parent = destination.has_parent_path() ? destination.parent_path() : fs::path(".");
  if (!fs::is_directory(parent)) throw InputError(fmt::format("{}: not a directory", parent.string()));
}

at::Tensor read_parameter(const model::ModelDescription& description, Weights& weights, int parameter) {
  const auto out = at::empty(description.parameters.at(static_cast<size_t>(parameter)).shape, at::kFloat);
  weights.read(parameter, out);
  return out;
}

// A tensor as the file holds it: its parameters stacked, transposed where the file is.
at::Tensor assembled(const model::HuggingFaceTensor& tensor, const std::function<at::Tensor(int)>& of) {
  if (tensor.parameters.empty()) return at::zeros(tensor.shape, at::kFloat);
  std::vector<at::Tensor> parts;
  for (const int parameter : tensor.parameters) parts.push_back(of(parameter));
  const at::Tensor whole = parts.size() == 1 ? parts.front() : at::cat(parts, 0);
  return (tensor.transposed ? whole.t() : whole).contiguous();
}

std::string dtype_name(at::ScalarType type) {
  return type == at::kBFloat16 ? "bfloat16" : type == at::kHalf ? "float16" : "float32";
}

at::Tensor converted(const at::Tensor& tensor, at::ScalarType type, const std::string& name) {
  const at::Tensor result = tensor.to(type);
  if (type != at::kFloat && !at::isfinite(result).all().item<bool>() && at::isfinite(tensor).all().item<bool>()) {
    throw InputError(fmt::format("'{}' has values up to {}, beyond the range of {}", name,
                                 tensor.abs().max().item<float>(), dtype_name(type)));
  }
  return result;
}

}  // namespace

WrittenModel write_hugging_face(const fs::path& destination, const model::ModelNode& tree,
                                const model::ModelDescription& description, Weights& weights,
                                const HuggingFaceExport& options, FileSystem& file_system) {
  refuse_existing(destination);
  const auto files = model::write_hugging_face_config(tree, dtype_name(options.type), options.tokens);
  const auto ready = std::make_shared<at::Tensor>();  // what the writer holds: one tensor at a time
  std::vector<TensorToWrite> tensors;
  for (const auto& tensor : model::hugging_face_tensors(description, files.architecture)) {
    tensors.push_back({tensor.name, stored_type_of(options.type), tensor.shape, [&, tensor, ready] {
                         const auto whole = assembled(
                             tensor, [&](int parameter) { return read_parameter(description, weights, parameter); });
                         *ready = converted(whole, options.type, tensor.name);
                         return std::span<const std::byte>(bytes_of(*ready));
                       }});
  }
  AtomicFolder folder(destination, file_system);
  WrittenModel written;
  write_safetensors_folder(folder, tensors, options.maximum_shard_bytes);
  folder.write("config.json", files.config_json);
  folder.write("generation_config.json", files.generation_config_json);
  if (options.write_tokenizer) options.write_tokenizer(folder.partial());
  for (const auto& entry : fs::directory_iterator(folder.partial())) {
    written.files.push_back(entry.path().filename().string());
  }
  folder.commit();
  written.parameters = description.parameter_count();
  return written;
}

WrittenModel write_checkpoint(const fs::path& destination, const model::ModelNode& tree,
                              const model::ModelDescription& description, Weights& weights, uint64_t parameter_hash,
                              const TokenizerWriter& write_tokenizer, FileSystem& file_system) {
  refuse_existing(destination);
  const auto ready = std::make_shared<at::Tensor>();
  std::vector<StateToWrite> parameters;
  for (size_t i = 0; i < description.parameters.size(); ++i) {
    const auto& parameter = description.parameters[i];
    parameters.push_back({kParameterValue, parameter.path, StoredType::kF32, parameter.shape, [&, i, ready] {
                            *ready = read_parameter(description, weights, static_cast<int>(i));
                            return std::span<const std::byte>(bytes_of(*ready));
                          }});
  }
  WrittenModel written;
  CheckpointWriter writer(destination, file_system);
  writer.write_tensors(kParametersFile, parameters);
  writer.write_file(kModelFile, config::dump(tree));
  if (write_tokenizer) writer.write_others(write_tokenizer);
  for (const auto& file : writer.files()) written.files.push_back(file.name);
  Manifest manifest;
  manifest.parameter_hash = parameter_hash;
  writer.commit(manifest);
  written.files.emplace_back(kManifestName);
  written.parameters = description.parameter_count();
  return written;
}

NamedTensors in_hugging_face_layout(const model::ModelDescription& description, const std::string& architecture,
                                    const std::function<at::Tensor(int parameter)>& of) {
  NamedTensors named;
  for (const auto& tensor : model::hugging_face_tensors(description, architecture)) {
    if (!tensor.parameters.empty()) named.emplace_back(tensor.name, assembled(tensor, of));
  }
  return named;
}

}  // namespace weft::checkpoint
