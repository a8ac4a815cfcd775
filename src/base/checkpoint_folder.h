// The folder checkpoints/ of a run: step-N/ each complete or not there at all, which of them is newest and best, and
// what is wrong with one. No tensor library.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/file_system.h"
#include "base/manifest.h"

namespace weft {

struct CheckpointEntry {
  int64_t step = 0;
  std::filesystem::path folder;
};

// "step-200"
[[nodiscard]] std::string checkpoint_name(int64_t step);

// All step-N folders of `checkpoints`, ascending; none where the folder is missing. Nothing inside is looked at.
[[nodiscard]] std::vector<CheckpointEntry> list_checkpoints(const std::filesystem::path& checkpoints);

// The manifest of a step's folder, after a check that every listed file is there with its size. InputError says what is
// wrong. Checksums of the files are not looked at: what reads tensors does, and verify_checkpoint.
[[nodiscard]] Manifest read_manifest(const std::filesystem::path& folder);

// Everything wrong with a step's folder, each naming the file and, where it is known, the tensor; all checksums are
// computed. Empty: valid.
[[nodiscard]] std::vector<std::string> verify_checkpoint(const std::filesystem::path& folder);

struct FoundCheckpoint {
  std::filesystem::path folder;
  Manifest manifest;
};
// Those that are not complete (read_manifest fails) do not count.
[[nodiscard]] std::optional<FoundCheckpoint> newest_checkpoint(const std::filesystem::path& checkpoints);
// The smallest validation loss, the newest of equals; the newest where none has one.
[[nodiscard]] std::optional<FoundCheckpoint> best_checkpoint(const std::filesystem::path& checkpoints);

// Removes what killed processes left behind. Call it only under the run's lock.
void clean_checkpoints(const std::filesystem::path& checkpoints, FileSystem& file_system = FileSystem::real());

// Keeps the `keep` newest complete ones (at least one) and the best; removes the other complete ones. Folders that are
// not complete are left to clean_checkpoints and to people.
void prune_checkpoints(const std::filesystem::path& checkpoints, int64_t keep,
                       FileSystem& file_system = FileSystem::real());

// Takes a folder out of sight at once, then removes it.
void remove_checkpoint(const std::filesystem::path& folder, FileSystem& file_system = FileSystem::real());

// What a DIR on the command line is.
enum class ModelFolderKind { kRun, kCheckpoint, kHuggingFace };
struct ModelFolder {
  ModelFolderKind kind = ModelFolderKind::kRun;
  std::filesystem::path directory;   // as given
  std::filesystem::path checkpoint;  // the step's folder; empty for Hugging Face
};
// A run (its best checkpoint), a step's folder, or a Hugging Face directory (config.json). InputError where it is none
// or a run has no complete checkpoint.
[[nodiscard]] ModelFolder find_model_folder(const std::filesystem::path& directory);

}  // namespace weft
