// Writing one checkpoint and reading it back, as bytes. The tensors' meaning is src/checkpoint's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
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
  std::vector<int64_t> shape;
  std::function<std::span<const std::byte>()> contents;  // as in TensorToWrite
};

// Writes CHECKPOINTS/step-N: aside, every file synced, the manifest last, then the folder synced and renamed. Without
// commit() nothing remains. Errors as FileSystem's.
class CheckpointWriter {
 public:
  // The folder's parent exists.
  explicit CheckpointWriter(std::filesystem::path folder, FileSystem& file_system = FileSystem::real());

  void write_tensors(const std::string& file, const std::vector<StateToWrite>& tensors);
  void write_file(const std::string& file, std::string_view contents);
  // Lets `write` put files, each synced, into the folder that it is given.
  void write_others(const std::function<void(const std::filesystem::path& folder)>& write);
  [[nodiscard]] const std::vector<ManifestFile>& files() const { return written_.files; }

  // Fills in files and tensors of the manifest. A folder that is there already is replaced. Returns the folder.
  std::filesystem::path commit(Manifest manifest);

 private:
  FileSystem& file_system_;
  std::filesystem::path folder_;
  AtomicFolder aside_;
  Manifest written_;  // files and tensors so far
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
  // A file of the folder that holds no tensors, compared with its checksum. InputError where it is not listed.
  [[nodiscard]] std::string read_text(std::string_view file) const;
  [[nodiscard]] bool has_file(std::string_view file) const;

 private:
  [[nodiscard]] std::span<const std::byte> checked_piece(const ManifestTensor& tensor, const TensorPiece& piece);

  std::filesystem::path folder_;
  Manifest manifest_;
  std::map<std::string, std::unique_ptr<SafetensorsFile>, std::less<>> files_;
};

}  // namespace weft
