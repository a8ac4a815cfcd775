// The manifest of a checkpoint: what a step's folder holds, with checksums (docs/formats/checkpoint.md). A format that
// later versions extend and never redefine: tensors are global, and a piece says where its bytes lie in them, so that
// one rank's checkpoint is the case of one piece a tensor.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/safetensors.h"
#include "base/tensor_part.h"

namespace weft {

inline constexpr std::string_view kManifestName = "manifest.json";
inline constexpr int64_t kManifestVersion = 1;

struct ManifestFile {
  std::string name;  // in the checkpoint's folder, without a path
  uint64_t bytes = 0;
  uint64_t checksum = 0;  // xxh64 of the whole file, seed 0
};

// A box of a tensor, stored contiguously, row-major.
struct TensorPiece {
  std::string file;       // a safetensors file of the folder
  std::string tensor;     // its name in that file
  Box box;                // in the global tensor
  uint64_t checksum = 0;  // xxh64 of its bytes, seed 0
};

struct ManifestTensor {
  std::string state;  // "value" for a parameter; an optimizer's name for what it keeps ("first_moment")
  std::string path;   // the parameter's
  StoredType type = StoredType::kF32;
  std::vector<int64_t> shape;  // global
  std::vector<TensorPiece> pieces;
};

struct ManifestOptimizerGroup {
  std::string name;
  std::string kind;                     // "adamw"
  std::string convention;               // what its state means, so that a reader of another convention refuses it
  int64_t updates = 0;                  // made so far: the t of a bias correction
  std::vector<std::string> parameters;  // paths
};

// Where a source of data stands. It follows from `samples`; kept to be read by people and checked by a resume.
struct ManifestSource {
  std::string name;
  int64_t epoch = 0;
  int64_t index = 0;
};

struct Manifest {
  int64_t step = 0;     // optimizer steps done
  int64_t samples = 0;  // sequences consumed: the global id of the next
  int64_t tokens = 0;   // target tokens trained on
  uint64_t seed = 0;
  uint64_t parameter_hash = 0;
  std::optional<double> validation_loss;      // measured at this step; the smallest is the best checkpoint
  uint64_t configuration_hash = 0;            // of the resolved tree
  std::map<std::string, std::string> fields;  // key path -> value, as TOML: what a resume compares
  uint64_t data_fingerprint = 0;
  std::vector<ManifestSource> sources;
  std::vector<ManifestOptimizerGroup> optimizer;
  std::vector<ManifestFile> files;  // all of the folder but the manifest
  std::vector<ManifestTensor> tensors;

  [[nodiscard]] const ManifestTensor* find(std::string_view state, std::string_view path) const;
};

// What one rank wrote of a checkpoint: files, and pieces that need not fill their tensors.
struct ManifestPart {
  std::vector<ManifestFile> files;
  std::vector<ManifestTensor> tensors;
};
// As one rank tells it another, and read again (InputError).
[[nodiscard]] std::string manifest_part_text(const ManifestPart& part);
[[nodiscard]] ManifestPart parse_manifest_part(std::string_view text, std::string_view origin);
// Adds files and pieces. InputError names a tensor to which the two give different shapes or types. Whether pieces fill
// their tensors and names are unique is parse_manifest's to see.
void add_part(ManifestPart& all, ManifestPart part);

// The file's text: its first line carries the checksum of all that follows.
[[nodiscard]] std::string manifest_text(const Manifest& manifest);

// Checks the checksum, then every field: names without a path, pieces that fill their tensors' shapes exactly and lie
// in listed files, unique names. InputError names `origin` and the key.
[[nodiscard]] Manifest parse_manifest(std::string_view text, std::string_view origin);

}  // namespace weft
