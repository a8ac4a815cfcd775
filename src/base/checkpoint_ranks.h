// One checkpoint written by several ranks. They must hear what each of them says; the caller brings the communicator.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/checkpoint_file.h"
#include "base/file_system.h"
#include "base/manifest.h"

namespace weft {

struct CheckpointRanks {
  int rank = 0;
  int size = 1;
  // Gives every rank the texts of all, by rank. All ranks call it, equally often. The default is one rank's.
  std::function<std::vector<std::string>(std::string mine)> gather = [](std::string mine) {
    return std::vector<std::string>{std::move(mine)};
  };
};

// Every rank does its part, then all have the answers of all, by rank. An Error of any rank's part is thrown on every
// rank, as the first failing rank's InputError or Error with its number. Any other exception is this rank's alone: it
// says nothing to the others, who learn of it from the communicator.
std::vector<std::string> on_all_ranks(const CheckpointRanks& ranks, const std::function<std::string()>& part);

// The file of a rank's tensors: one rank keeps the parameters' values apart from what the optimizer keeps, for those
// who want nothing else; of several each has one file, "rank-3.safetensors".
inline constexpr const char* kParametersFile = "parameters.safetensors";
inline constexpr const char* kOptimizerFile = "optimizer.safetensors";
[[nodiscard]] std::string tensor_file(std::string_view state, int rank, int ranks);

struct CheckpointToWrite {
  Manifest manifest;                         // all but files and tensors; rank 0's counts
  std::map<std::string, std::string> texts;  // small files, name -> contents; rank 0's count
  // This rank's pieces by safetensors file, of which no two ranks name the same. Together the ranks' pieces fill each
  // tensor once: of ranks that hold the same, one brings it.
  std::map<std::string, std::vector<StateToWrite>> files;
};

// All ranks write the step's folder together, in a file system that all see: rank 0 makes the folder aside, each rank
// writes its files into it, rank 0 adds the texts and, last, the manifest, syncs and renames. So the folder is complete
// or not there, whoever is killed when. A failure of one is thrown on all (on_all_ranks) and leaves nothing. Returns
// the folder. The folder's parent exists; the same paths on all ranks.
std::filesystem::path write_checkpoint_together(const std::filesystem::path& folder, const CheckpointToWrite& contents,
                                                const CheckpointRanks& ranks,
                                                FileSystem& file_system = FileSystem::real());

// Writes a checkpoint again, as `ranks` ranks write it that hold near-equal ranges of each tensor; 1: every tensor
// whole. `to` does not exist, its parent does (InputError). In memory is one tensor at a time. Returns the new
// manifest.
Manifest reshard_checkpoint(const std::filesystem::path& from, const std::filesystem::path& to, int ranks,
                            FileSystem& file_system = FileSystem::real());

}  // namespace weft
