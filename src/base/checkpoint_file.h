// Writing one checkpoint and reading it back, as bytes. The tensors' meaning is src/checkpoint's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/manifest.h"
#include "base/safetensors_file.h"

namespace weft {

struct StateToWrite {
  std::string state, path;  // as in ManifestTensor
  StoredType type = StoredType::kF32;
  std::vector<int64_t> shape;                            // of the whole tensor
  std::function<std::span<const std::byte>()> contents;  // of the part; as in TensorToWrite, but once for each box
  std::optional<TensorPart> part = {};                   // what is written of it; all where there is none
};

// Writes a safetensors file into a folder and syncs it. A whole tensor is named by state and path, a box of one by its
// offset too: "first_moment/layers.0.mlp.up.weight@128,0". Errors as FileSystem's.
[[nodiscard]] ManifestPart write_pieces(const std::filesystem::path& folder, const std::string& file,
                                        const std::vector<StateToWrite>& tensors, FileSystem& file_system);

// Writes CHECKPOINTS/step-N: aside, every file synced, the manifest last, then the folder synced and renamed. Without
// commit() nothing remains. Errors as FileSystem's.
class CheckpointWriter {
 public:
  // The folder's parent exists.
  explicit CheckpointWriter(std::filesystem::path folder, FileSystem& file_system = FileSystem::real());

  // Where other ranks put their files before commit().
  [[nodiscard]] const std::filesystem::path& partial() const { return aside_.partial(); }

  void write_tensors(const std::string& file, const std::vector<StateToWrite>& tensors);
  // What another rank wrote into partial(). Error: its files are not there; otherwise as add_part.
  void add(ManifestPart part);
  void write_file(const std::string& file, std::string_view contents);
  // Lets `write` put files, each synced, into the folder that it is given.
  void write_others(const std::function<void(const std::filesystem::path& folder)>& write);
  [[nodiscard]] const std::vector<ManifestFile>& files() const { return written_.files; }

  // Fills in files and tensors of the manifest. A folder that is there already is replaced. Returns the folder. Error
  // where the pieces do not fill their tensors.
  std::filesystem::path commit(Manifest manifest);

 private:
  FileSystem& file_system_;
  std::filesystem::path folder_;
  AtomicFolder aside_;
  ManifestPart written_;  // so far
};

// A checkpoint's tensors. What is read is compared with its checksum first.
class CheckpointReader {
 public:
  // InputError as read_manifest's.
  explicit CheckpointReader(std::filesystem::path folder);

  [[nodiscard]] const Manifest& manifest() const { return manifest_; }
  [[nodiscard]] const std::filesystem::path& folder() const { return folder_; }

  // Copies the whole tensor, joining its pieces, to `out`, which has its size (WEFT_CHECK). InputError names the file
  // and the tensor: a checksum that differs, a piece that the file does not hold as the manifest says.
  void read(const ManifestTensor& tensor, std::span<std::byte> out);
  // The same of a part, whatever the pieces are: reads those that it touches, each whole for its checksum, once.
  // WEFT_CHECK: the part lies in the tensor.
  void read_part(const ManifestTensor& tensor, const TensorPart& part, std::span<std::byte> out);
  // A file of the folder that holds no tensors, compared with its checksum. InputError where it is not listed.
  [[nodiscard]] std::string read_text(std::string_view file) const;
  [[nodiscard]] bool has_file(std::string_view file) const;

 private:
  [[nodiscard]] std::span<const std::byte> checked_piece(const ManifestTensor& tensor, const TensorPiece& piece);

  std::filesystem::path folder_;
  Manifest manifest_;
  std::map<std::string, std::unique_ptr<SafetensorsFile>, std::less<>> files_;
  std::set<std::pair<std::string, std::string>> checked_;  // file and tensor
};

}  // namespace weft
