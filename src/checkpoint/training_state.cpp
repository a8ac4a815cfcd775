#include "checkpoint/training_state.h"

#include <algorithm>
#include <memory>
#include <set>
#include <sstream>

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/check.h"
#include "base/checkpoint_folder.h"
#include "base/error.h"
#include "checkpoint/stored_tensor.h"
#include "config/toml.h"

namespace weft::checkpoint {

namespace {

StateToWrite state_to_write(const HeldTensor& held) {
  const auto ready = std::make_shared<at::Tensor>();
  return {held.state,
          held.path,
          stored_type_of(held.values.scalar_type()),
          held.shape,
          [values = held.values, ready]() -> std::span<const std::byte> {
            *ready = values.detach().to(at::kCPU).contiguous();
            return bytes_of(*ready);
          },
          held.part};
}

std::map<std::string, std::vector<StateToWrite>> files_of(const std::vector<HeldTensor>& tensors,
                                                          const CheckpointRanks& ranks) {
  const auto file_of = [&](const std::string& state) { return tensor_file(state, ranks.rank, ranks.size); };
  std::map<std::string, std::vector<StateToWrite>> files = {{file_of(kParameterValue), {}}, {file_of(""), {}}};
  for (const HeldTensor& held : tensors) {
    WEFT_CHECK(held.values.numel() == held.part.elements());
    files.at(file_of(held.state)).push_back(state_to_write(held));
  }
  return files;
}

std::string named(const std::string& state, const std::string& path) { return fmt::format("{} of '{}'", state, path); }

// What stands between the tensors that a rank wants and those stored.
std::vector<std::string> misfits(const Manifest& manifest, const std::vector<HeldTensor>& tensors) {
  std::vector<std::string> found;
  for (const HeldTensor& held : tensors) {
    const ManifestTensor* stored = manifest.find(held.state, held.path);
    const StoredType type = stored_type_of(held.values.scalar_type());
    if (stored == nullptr) {
      found.push_back(fmt::format("{} is missing", named(held.state, held.path)));
    } else if (stored->shape != held.shape || stored->type != type) {
      found.push_back(fmt::format("{} is {} {}, expected {} {}", named(held.state, held.path),
                                  stored_type_name(stored->type), shape_text(stored->shape), stored_type_name(type),
                                  shape_text(held.shape)));
    }
  }
  return found;
}

// A line each, so that ranks can tell each other: 'w' what is wanted, 'm' a misfit.
std::string wishes_of(const Manifest& manifest, const std::vector<HeldTensor>& tensors) {
  std::string text;
  for (const HeldTensor& held : tensors) text += fmt::format("w{}\n", named(held.state, held.path));
  for (const std::string& misfit : misfits(manifest, tensors)) text += fmt::format("m{}\n", misfit);
  return text;
}

// Every misfit of any rank, once, and what is stored but wanted by none.
std::vector<std::string> problems_of(const Manifest& manifest, const std::vector<std::string>& wishes) {
  std::set<std::string> wanted;
  std::vector<std::string> problems;
  for (const std::string& of_a_rank : wishes) {
    std::istringstream lines(of_a_rank);
    for (std::string line; std::getline(lines, line);) {
      const std::string text = line.substr(1);
      if (line.front() == 'w') {
        wanted.insert(text);
      } else if (std::find(problems.begin(), problems.end(), text) == problems.end()) {
        problems.push_back(text);
      }
    }
  }
  for (const ManifestTensor& stored : manifest.tensors) {
    const std::string name = named(stored.state, stored.path);
    if (!wanted.contains(name)) problems.push_back(name + " is not expected");
  }
  return problems;
}

void read_into(CheckpointReader& reader, const HeldTensor& held) {
  if (held.part.elements() == 0) return;
  const ManifestTensor& stored = *reader.manifest().find(held.state, held.path);
  if (held.values.is_contiguous() && held.values.device().is_cpu()) {
    reader.read_part(stored, held.part, bytes_of(held.values));
    return;
  }
  const at::Tensor staged = at::empty(held.values.sizes(), held.values.options().device(at::kCPU));
  reader.read_part(stored, held.part, bytes_of(staged));
  held.values.copy_(staged);
}

}  // namespace

std::vector<HeldTensor> held_whole(const std::vector<StateTensor>& tensors) {
  std::vector<HeldTensor> held;
  for (const StateTensor& tensor : tensors) {
    const std::vector<int64_t> shape = tensor.tensor.sizes().vec();
    held.push_back({tensor.state, tensor.path, shape, whole_part(shape), tensor.tensor});
  }
  return held;
}

std::filesystem::path save_training_state(const std::filesystem::path& checkpoints, const TrainingState& state,
                                          int64_t keep, const CheckpointRanks& ranks, FileSystem& file_system) {
  on_all_ranks(ranks, [&]() -> std::string {
    if (ranks.rank == 0 && !std::filesystem::exists(checkpoints)) {
      file_system.create_directory(checkpoints);
      file_system.sync_directory(checkpoints.has_parent_path() ? checkpoints.parent_path() : ".");
    }
    return "";
  });
  CheckpointToWrite contents;
  contents.manifest = state.manifest;
  contents.texts = state.texts;
  if (ranks.rank == 0) contents.texts[kModelFile] = config::dump(*state.model);
  contents.files = files_of(state.tensors, ranks);
  auto folder =
      write_checkpoint_together(checkpoints / checkpoint_name(state.manifest.step), contents, ranks, file_system);
  on_all_ranks(ranks, [&]() -> std::string {
    if (ranks.rank == 0) prune_checkpoints(checkpoints, keep, file_system);
    return "";
  });
  return folder;
}

void load_training_state(CheckpointReader& reader, const std::vector<HeldTensor>& tensors,
                         const CheckpointRanks& ranks) {
  const Manifest& manifest = reader.manifest();
  const auto problems = problems_of(manifest, on_all_ranks(ranks, [&] { return wishes_of(manifest, tensors); }));
  if (!problems.empty()) {
    throw InputError(fmt::format("{}: does not fit:\n  {}", reader.folder().string(), fmt::join(problems, "\n  ")));
  }
  on_all_ranks(ranks, [&]() -> std::string {
    for (const HeldTensor& held : tensors) {
      WEFT_CHECK(held.values.numel() == held.part.elements());
      read_into(reader, held);
    }
    return "";
  });
}

}  // namespace weft::checkpoint
