#include "train/training_checkpoint.h"

#include <map>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "base/checkpoint_file.h"
#include "base/checkpoint_folder.h"
#include "base/error.h"
#include "base/hash.h"
#include "checkpoint/training_state.h"
#include "comm/text.h"
#include "config/toml.h"
#include "config/tree.h"

namespace weft::train {
namespace {

constexpr const char* kFingerprintFile = "data.txt";

// What this rank holds of each tensor of the state. Every rank has the same list.
struct Held {
  std::string state;
  int parameter = 0;
  at::Tensor piece;  // flat
};

std::vector<Held> held_state(const TrainedState& state) {
  std::vector<Held> held;
  std::map<std::string, int> indices;
  for (int index = 0; index < static_cast<int>(state.parameters.size()); ++index) {
    indices[state.parameters.path(index)] = index;
    held.push_back({checkpoint::kParameterValue, index, state.parameters.piece(index).master});
  }
  for (optim::StateTensor& tensor : state.optimizer.state()) {
    held.push_back({std::move(tensor.name), indices.at(tensor.path), std::move(tensor.tensor)});
  }
  return held;
}

std::vector<checkpoint::StateTensor> whole_state(const TrainedState& state) {
  std::vector<checkpoint::StateTensor> tensors;
  for (const Held& held : held_state(state)) {
    tensors.push_back(
        {held.state, state.parameters.path(held.parameter), state.traffic.whole(held.parameter, held.piece)});
  }
  return tensors;
}

Manifest manifest_of(const TrainedState& state, const Progression& now, const std::string& configuration) {
  Manifest manifest;
  manifest.step = now.step;
  manifest.samples = now.samples;
  manifest.tokens = now.tokens;
  manifest.seed = static_cast<uint64_t>(state.run.train.seed);
  manifest.parameter_hash = state.traffic.parameter_hash();
  manifest.validation_loss = now.validation_loss;
  manifest.configuration_hash = xxh64(configuration);
  config::visit(state.run, [&](const std::string& path, const config::Field& field) {
    if (field.is_value()) manifest.fields[path] = config::value_text(field.get());
  });
  manifest.data_fingerprint = state.dataset.fingerprint().hash();
  const auto cursors = state.dataset.order().cursors(static_cast<uint64_t>(now.samples));
  for (size_t source = 0; source < cursors.size(); ++source) {
    manifest.sources.push_back({state.dataset.source_names().at(source), static_cast<int64_t>(cursors[source].epoch),
                                static_cast<int64_t>(cursors[source].index)});
  }
  manifest.optimizer = state.optimizer.groups(state.parameters);
  return manifest;
}

std::string newest_text(const std::filesystem::path& checkpoints) {
  const auto newest = newest_checkpoint(checkpoints);
  return newest ? fmt::format("The newest complete checkpoint is {}", newest->folder.string())
                : std::string("There is no complete checkpoint");
}

// Both fingerprints in words, the checkpoint's as it was written beside it.
[[noreturn]] void refuse_data(const CheckpointReader& reader, const data::Dataset& dataset) {
  std::string message = fmt::format("{}: the data is not what the run was trained on", reader.folder().string());
  if (reader.has_file(kFingerprintFile)) message += "\nit was:\n" + reader.read_text(kFingerprintFile);
  message += "\nit is now:\n" + dataset.fingerprint().text();
  throw InputError(message);
}

// What kept the state from being written, or an empty text.
std::string write(const std::filesystem::path& checkpoints, const checkpoint::TrainingState& state, int64_t keep) {
  try {
    checkpoint::save_training_state(checkpoints, state, keep);
    return "";
  } catch (const Error& error) {
    return fmt::format("step {} could not be saved: {}. {}; make room and go on from it with --resume",
                       state.manifest.step, error.what(), newest_text(checkpoints));
  }
}

}  // namespace

void save_checkpoint(const std::filesystem::path& checkpoints, const TrainedState& state, const Progression& now) {
  checkpoint::TrainingState saved;
  const std::string configuration = config::dump(state.run);
  saved.manifest = manifest_of(state, now, configuration);
  saved.model = &state.run.model;
  saved.texts["config.toml"] = configuration;
  saved.texts[kFingerprintFile] = state.dataset.fingerprint().text();
  saved.tensors = whole_state(state);
  std::string failure;
  if (state.ranks.rank() == 0) failure = write(checkpoints, saved, state.run.checkpoint.keep);
  failure = comm::broadcast_text(std::move(failure), 0, state.ranks.world(), "the saved checkpoint");
  if (!failure.empty()) throw Error(failure);
}

Progression load_checkpoint(const std::filesystem::path& folder, const TrainedState& state) {
  CheckpointReader reader(folder);
  const Manifest& manifest = reader.manifest();
  if (manifest.data_fingerprint != state.dataset.fingerprint().hash()) refuse_data(reader, state.dataset);
  std::vector<checkpoint::StateTensor> whole;
  const std::vector<Held> held = held_state(state);
  for (const Held& each : held) {
    const std::vector<int64_t>& shape = state.parameters.global_shape(each.parameter);
    const bool all = state.parameters.piece(each.parameter).shape == shape;
    const bool here = all && each.piece.numel() == state.parameters.piece(each.parameter).elements();
    whole.push_back({each.state, state.parameters.path(each.parameter),
                     here ? each.piece.view(shape) : at::empty(shape, each.piece.options())});
  }
  checkpoint::load_training_state(reader, whole);
  for (size_t i = 0; i < held.size(); ++i) {
    if (!whole[i].tensor.is_alias_of(held[i].piece)) {
      state.parameters.cut(held[i].parameter, whole[i].tensor, held[i].piece);
    }
  }
  state.parameters.refresh_compute_copies();
  state.optimizer.restore_steps(manifest.step);
  return {manifest.step, manifest.samples, manifest.tokens, manifest.validation_loss};
}

}  // namespace weft::train
