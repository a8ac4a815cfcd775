#include "checkpoint/training_state.h"

#include <set>
#include <utility>

#include <fmt/format.h>

#include "base/checkpoint_folder.h"
#include "base/error.h"
#include "checkpoint/stored_tensor.h"
#include "config/toml.h"

namespace weft::checkpoint {

namespace {

std::vector<StateToWrite> states_to_write(const std::vector<StateTensor>& tensors, bool parameters) {
  std::vector<const StateTensor*> chosen;
  NamedTensors named;
  for (const auto& tensor : tensors) {
    if ((tensor.state == kParameterValue) != parameters) continue;
    chosen.push_back(&tensor);
    named.emplace_back(tensor.path, tensor.tensor);
  }
  auto plain = tensors_to_write(named);
  std::vector<StateToWrite> result;
  for (size_t i = 0; i < plain.size(); ++i) {
    result.push_back({chosen[i]->state, chosen[i]->path, plain[i].type, plain[i].shape, std::move(plain[i].contents)});
  }
  return result;
}

// What stands between the tensors wanted and those stored; empty if nothing does.
std::vector<std::string> misfits(const Manifest& manifest, const std::vector<StateTensor>& tensors) {
  std::vector<std::string> found;
  std::set<std::pair<std::string_view, std::string_view>> wanted;
  for (const auto& tensor : tensors) {
    wanted.emplace(tensor.state, tensor.path);
    const ManifestTensor* stored = manifest.find(tensor.state, tensor.path);
    const auto shape = tensor.tensor.sizes().vec();
    const StoredType type = stored_type_of(tensor.tensor.scalar_type());
    if (stored == nullptr) {
      found.push_back(fmt::format("{} of '{}' is missing", tensor.state, tensor.path));
    } else if (stored->shape != shape || stored->type != type) {
      found.push_back(fmt::format("{} of '{}' is {} {}, expected {} {}", tensor.state, tensor.path,
                                  stored_type_name(stored->type), shape_text(stored->shape), stored_type_name(type),
                                  shape_text(shape)));
    }
  }
  for (const auto& stored : manifest.tensors) {
    if (!wanted.contains({stored.state, stored.path})) {
      found.push_back(fmt::format("{} of '{}' is not expected", stored.state, stored.path));
    }
  }
  return found;
}

}  // namespace

std::filesystem::path save_training_state(const std::filesystem::path& checkpoints, const TrainingState& state,
                                          int64_t keep, FileSystem& file_system) {
  if (!std::filesystem::exists(checkpoints)) {
    file_system.create_directory(checkpoints);
    file_system.sync_directory(checkpoints.has_parent_path() ? checkpoints.parent_path() : ".");
  }
  CheckpointWriter writer(checkpoints / checkpoint_name(state.manifest.step), file_system);
  writer.write_tensors(kParametersFile, states_to_write(state.tensors, true));
  writer.write_tensors(kOptimizerFile, states_to_write(state.tensors, false));
  writer.write_file(kModelFile, config::dump(*state.model));
  for (const auto& [name, contents] : state.texts) writer.write_file(name, contents);
  auto folder = writer.commit(state.manifest);
  prune_checkpoints(checkpoints, keep, file_system);
  return folder;
}

void load_training_state(CheckpointReader& reader, const std::vector<StateTensor>& tensors) {
  if (const auto found = misfits(reader.manifest(), tensors); !found.empty()) {
    std::string message = fmt::format("{}: does not fit:", reader.folder().string());
    for (const auto& problem : found) message += "\n  " + problem;
    throw InputError(message);
  }
  for (const auto& tensor : tensors) {
    const ManifestTensor& stored = *reader.manifest().find(tensor.state, tensor.path);
    if (tensor.tensor.is_contiguous() && tensor.tensor.device().is_cpu()) {
      reader.read(stored, bytes_of(tensor.tensor));
    } else {
      auto staged = at::empty(stored.shape, tensor.tensor.scalar_type());
      reader.read(stored, bytes_of(staged));
      tensor.tensor.copy_(staged);
    }
  }
}

}  // namespace weft::checkpoint
