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

// Elements that several ranks hold, the first of them writes.
Range written_range(const TrainedState& state, int index) {
  const nn::Piece& piece = state.parameters.piece(index);
  // A frozen parameter is in no bucket, so that the ranks that divide buckets hold it alike too.
  comm::Communicator& alike = state.parameters.frozen(index) ? state.ranks.copies() : state.ranks.replicas();
  if (alike.rank() == 0 && piece.owned.size() > 0) return piece.owned;
  return {piece.range.begin, piece.range.begin};
}

// What this rank's masters hold of each tensor of the state, or that of it which this rank writes.
enum class Parts { kHeld, kWritten };
std::vector<checkpoint::HeldTensor> state_tensors(const TrainedState& state, Parts parts) {
  std::vector<checkpoint::HeldTensor> tensors;
  const auto add = [&](std::string name, int index, const at::Tensor& values) {
    if (state.parameters.held_as(index) == nn::Held::kAbsent) return;
    const nn::Piece& piece = state.parameters.piece(index);
    const Range range = parts == Parts::kHeld ? piece.range : written_range(state, index);
    tensors.push_back({std::move(name), state.parameters.path(index), state.parameters.global_shape(index),
                       TensorPart{{piece.offset, piece.shape}, range},
                       values.narrow(0, range.begin - piece.range.begin, range.size())});
  };
  std::map<std::string, int> indices;
  for (int index = 0; index < static_cast<int>(state.parameters.size()); ++index) {
    indices[state.parameters.path(index)] = index;
    add(checkpoint::kParameterValue, index, state.parameters.piece(index).master);
  }
  for (const optim::StateTensor& tensor : state.optimizer.state()) {
    add(tensor.name, indices.at(tensor.path), tensor.tensor);
  }
  return tensors;
}

CheckpointRanks checkpoint_ranks(const TrainedState& state) {
  comm::Communicator& world = state.ranks.world();
  return {world.rank(), world.size(),
          [&world](const std::string& mine) { return comm::gather_texts(mine, world, "the checkpoint"); }};
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

// Where the sources stood must follow from the phases; else the samples before the step were others than these phases
// say, and those behind it would not go on from them.
void check_cursors(const CheckpointReader& reader, const data::Dataset& dataset) {
  const Manifest& manifest = reader.manifest();
  const auto cursors = dataset.order().cursors(static_cast<uint64_t>(manifest.samples));
  for (size_t source = 0; source < manifest.sources.size() && source < cursors.size(); ++source) {
    const ManifestSource& stood = manifest.sources[source];
    const data::SampleOrder::Cursor& now = cursors[source];
    if (stood.epoch == static_cast<int64_t>(now.epoch) && stood.index == static_cast<int64_t>(now.index)) continue;
    throw InputError(fmt::format(
        "{}: behind step {} the source {} stood at sample {} of epoch {}; with this context, mixture and phases it "
        "would stand at {} of {}. A new context or mixture belongs to a phase that begins at the step",
        reader.folder().string(), manifest.step, stood.name, stood.index, stood.epoch, now.index, now.epoch));
  }
}

// What an optimizer keeps means something else to another kind, and to Muon's other convention.
void check_optimizer(const CheckpointReader& reader, const std::vector<ManifestOptimizerGroup>& groups) {
  std::map<std::string, const ManifestOptimizerGroup*> stored;
  for (const ManifestOptimizerGroup& group : reader.manifest().optimizer) {
    for (const std::string& path : group.parameters) stored[path] = &group;
  }
  for (const ManifestOptimizerGroup& group : groups) {
    for (const std::string& path : group.parameters) {
      const auto found = stored.find(path);
      if (found == stored.end()) continue;
      const ManifestOptimizerGroup& was = *found->second;
      if (was.kind == group.kind && was.convention == group.convention) continue;
      throw InputError(fmt::format(
          "{}: what the optimizer keeps of {} is of kind {} ({}), the run's optimizer is {} ({}){}",
          reader.folder().string(), path, was.kind, was.convention, group.kind, group.convention,
          was.kind == group.kind ? "; set optimizer.convention to the first, which trains alike: a sum's buffer is an "
                                   "average's divided by 1 - momentum"
                                 : "; to start afresh from its weights give them as train.initial_weights"));
    }
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
  saved.tensors = state_tensors(state, Parts::kWritten);
  try {
    checkpoint::save_training_state(checkpoints, saved, state.run.checkpoint.keep, checkpoint_ranks(state));
  } catch (const comm::CommunicationError&) {
    throw;
  } catch (const Error& error) {
    throw Error(fmt::format("step {} could not be saved: {}. {}; make room and go on from it with --resume", now.step,
                            error.what(), newest_text(checkpoints)));
  }
}

Progression load_checkpoint(const std::filesystem::path& folder, const TrainedState& state) {
  CheckpointReader reader(folder);
  const Manifest& manifest = reader.manifest();
  if (manifest.data_fingerprint != state.dataset.fingerprint().hash()) refuse_data(reader, state.dataset);
  check_cursors(reader, state.dataset);
  check_optimizer(reader, state.optimizer.groups(state.parameters));
  checkpoint::load_training_state(reader, state_tensors(state, Parts::kHeld), checkpoint_ranks(state));
  state.parameters.refresh_compute_copies();
  state.optimizer.restore_steps(manifest.step);
  return {manifest.step, manifest.samples, manifest.tokens, manifest.validation_loss};
}

}  // namespace weft::train
