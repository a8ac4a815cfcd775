#include "base/checkpoint_folder.h"

#include <algorithm>
#include <charconv>
#include <set>
#include <unistd.h>

#include <fmt/format.h>

#include "base/check.h"
#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/safetensors_file.h"

namespace weft {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kStep = "step-";

std::optional<int64_t> step_of(const std::string& name) {
  if (!name.starts_with(kStep)) return std::nullopt;
  int64_t step = 0;
  const char* const end = name.data() + name.size();
  const auto parsed = std::from_chars(name.data() + kStep.size(), end, step);
  if (parsed.ec != std::errc() || parsed.ptr != end || step < 0 || name != checkpoint_name(step)) return std::nullopt;
  return step;
}

std::optional<FoundCheckpoint> read_complete(const fs::path& folder) {
  try {
    return FoundCheckpoint{folder, read_manifest(folder)};
  } catch (const InputError&) {
    return std::nullopt;  // not complete: the caller looks at older ones
  }
}

std::vector<FoundCheckpoint> complete_checkpoints(const fs::path& checkpoints) {
  std::vector<FoundCheckpoint> found;
  for (const auto& entry : list_checkpoints(checkpoints)) {
    if (auto checkpoint = read_complete(entry.folder)) found.push_back(std::move(*checkpoint));
  }
  return found;
}

// The later of two is better where their losses are equal or neither has one.
bool is_better(const FoundCheckpoint& later, const FoundCheckpoint& earlier) {
  if (!earlier.manifest.validation_loss) return true;
  return later.manifest.validation_loss && *later.manifest.validation_loss <= *earlier.manifest.validation_loss;
}

const FoundCheckpoint* best_of(const std::vector<FoundCheckpoint>& ascending) {
  const FoundCheckpoint* best = nullptr;
  for (const auto& checkpoint : ascending) {
    if (best == nullptr || is_better(checkpoint, *best)) best = &checkpoint;
  }
  return best;
}

// A file whose checksum is wrong: which tensors are damaged, or that its header is.
void explain_damage(const fs::path& path, const Manifest& manifest, std::vector<std::string>& problems) {
  const std::string name = path.filename().string();
  std::optional<SafetensorsFile> file;
  try {
    file.emplace(path);
  } catch (const InputError& error) {
    problems.emplace_back(error.what());
    return;
  }
  const size_t before = problems.size();
  for (const auto& tensor : manifest.tensors) {
    for (const auto& piece : tensor.pieces) {
      if (piece.file != name) continue;
      const StoredTensor* stored = file->find(piece.tensor);
      if (stored == nullptr) {
        problems.push_back(fmt::format("{}: tensor '{}' is missing", path.string(), piece.tensor));
      } else if (xxh64(file->data(*stored)) != piece.checksum) {
        problems.push_back(
            fmt::format("{}: tensor '{}' is damaged: its checksum is not the manifest's", path.string(), piece.tensor));
      }
    }
  }
  if (problems.size() == before) {
    problems.push_back(
        fmt::format("{}: the header is damaged: the file's checksum is not the manifest's", path.string()));
  }
}

}  // namespace

std::string checkpoint_name(int64_t step) { return fmt::format("{}{}", kStep, step); }

std::vector<CheckpointEntry> list_checkpoints(const fs::path& checkpoints) {
  std::vector<CheckpointEntry> entries;
  if (!fs::is_directory(checkpoints)) return entries;
  for (const auto& entry : fs::directory_iterator(checkpoints)) {
    const auto step = step_of(entry.path().filename().string());
    if (step && entry.is_directory()) entries.push_back({*step, entry.path()});
  }
  std::sort(entries.begin(), entries.end(),
            [](const CheckpointEntry& a, const CheckpointEntry& b) { return a.step < b.step; });
  return entries;
}

Manifest read_manifest(const fs::path& folder) {
  const fs::path path = folder / kManifestName;
  if (!fs::exists(path)) throw InputError(fmt::format("{}: missing, the checkpoint is not complete", path.string()));
  Manifest manifest = parse_manifest(read_file(path), path.string());
  for (const auto& file : manifest.files) {
    std::error_code error;
    const auto bytes = fs::file_size(folder / file.name, error);
    if (error) {
      throw InputError(fmt::format("{}: cannot be read: {}", (folder / file.name).string(), error.message()));
    }
    if (bytes != file.bytes) {
      throw InputError(
          fmt::format("{}: has {} bytes, the manifest says {}", (folder / file.name).string(), bytes, file.bytes));
    }
  }
  return manifest;
}

std::vector<std::string> verify_checkpoint(const fs::path& folder) {
  std::vector<std::string> problems;
  Manifest manifest;
  try {
    manifest = read_manifest(folder);
  } catch (const InputError& error) {
    return {error.what()};
  }
  if (const auto step = step_of(folder.filename().string()); step && *step != manifest.step) {
    problems.push_back(fmt::format("{}: the manifest is of step {}", folder.string(), manifest.step));
  }
  std::set<std::string> with_tensors;
  for (const auto& tensor : manifest.tensors) {
    for (const auto& piece : tensor.pieces) with_tensors.insert(piece.file);
  }
  for (const auto& file : manifest.files) {
    const fs::path path = folder / file.name;
    const MappedFile contents(path);
    if (xxh64(contents.bytes()) == file.checksum) continue;
    if (with_tensors.contains(file.name)) {
      explain_damage(path, manifest, problems);
    } else {
      problems.push_back(fmt::format("{}: damaged: its checksum is not the manifest's", path.string()));
    }
  }
  return problems;
}

std::optional<FoundCheckpoint> newest_checkpoint(const fs::path& checkpoints) {
  const auto entries = list_checkpoints(checkpoints);
  for (auto entry = entries.rbegin(); entry != entries.rend(); ++entry) {
    if (auto found = read_complete(entry->folder)) return found;
  }
  return std::nullopt;
}

std::optional<FoundCheckpoint> best_checkpoint(const fs::path& checkpoints) {
  const auto found = complete_checkpoints(checkpoints);
  const FoundCheckpoint* best = best_of(found);
  return best == nullptr ? std::nullopt : std::optional(*best);
}

void clean_checkpoints(const fs::path& checkpoints, FileSystem& file_system) {
  if (!fs::is_directory(checkpoints)) return;
  std::vector<fs::path> left_behind;
  for (const auto& entry : fs::directory_iterator(checkpoints)) {
    if (is_partial(entry.path())) left_behind.push_back(entry.path());
  }
  for (const auto& path : left_behind) file_system.remove_all(path);
}

void prune_checkpoints(const fs::path& checkpoints, int64_t keep, FileSystem& file_system) {
  WEFT_CHECK(keep >= 1);
  const auto found = complete_checkpoints(checkpoints);
  const FoundCheckpoint* best = best_of(found);
  for (size_t i = 0; i + static_cast<size_t>(keep) < found.size(); ++i) {
    if (&found[i] != best) remove_checkpoint(found[i].folder, file_system);
  }
}

void remove_checkpoint(const fs::path& folder, FileSystem& file_system) {
  fs::path out_of_sight = folder;
  out_of_sight += fmt::format(".removed.partial-{}", ::getpid());
  file_system.rename(folder, out_of_sight);
  file_system.sync_directory(folder.parent_path());  // else a power cut could bring back a half-emptied step-N
  file_system.remove_all(out_of_sight);
}

ModelFolder find_model_folder(const fs::path& directory) {
  if (!fs::is_directory(directory)) throw InputError(fmt::format("{}: not a directory", directory.string()));
  if (fs::exists(directory / kManifestName)) return {ModelFolderKind::kCheckpoint, directory, directory};
  const fs::path checkpoints = directory / "checkpoints";
  if (fs::is_directory(checkpoints)) {
    auto best = best_checkpoint(checkpoints);
    if (!best) throw InputError(fmt::format("{}: the run has no complete checkpoint", directory.string()));
    return {ModelFolderKind::kRun, directory, best->folder};
  }
  if (fs::exists(directory / "config.json")) return {ModelFolderKind::kHuggingFace, directory, {}};
  throw InputError(fmt::format(
      "{}: neither a run (checkpoints/), nor a checkpoint (manifest.json), nor a Hugging Face directory (config.json)",
      directory.string()));
}

}  // namespace weft
