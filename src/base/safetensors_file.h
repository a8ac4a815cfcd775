// Safetensors files and folders of them: read through a mapping, written as a stream.
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
#include "base/safetensors.h"

namespace weft {

// One file, mapped; its header is checked against its size (InputError). Threads may share it.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::filesystem::path& path);

  [[nodiscard]] const std::filesystem::path& path() const { return file_.path(); }
  [[nodiscard]] const SafetensorsHeader& header() const { return header_; }
  [[nodiscard]] const StoredTensor* find(std::string_view name) const;  // null: not there
  // The bytes of a tensor of this file, possibly unaligned; valid as long as this object.
  [[nodiscard]] std::span<const std::byte> data(const StoredTensor& tensor) const;

 private:
  MappedFile file_;
  SafetensorsHeader header_;
  std::map<std::string, size_t, std::less<>> by_name_;
};

// The weights of a Hugging Face directory: model.safetensors, or the shards that model.safetensors.index.json names.
// InputError: neither is there, a shard is missing, its name has a path, a tensor is not in the shard that the index
// says, a shard holds a tensor that the index does not name.
class SafetensorsFolder {
 public:
  explicit SafetensorsFolder(const std::filesystem::path& directory);

  [[nodiscard]] static bool present(const std::filesystem::path& directory);

  struct Place {
    const SafetensorsFile* file = nullptr;
    const StoredTensor* tensor = nullptr;
    [[nodiscard]] std::span<const std::byte> data() const { return file->data(*tensor); }
  };
  // By tensor name.
  [[nodiscard]] const std::map<std::string, Place, std::less<>>& tensors() const { return tensors_; }
  [[nodiscard]] const Place* find(std::string_view name) const;

 private:
  void add(const SafetensorsFile& file);

  std::vector<std::unique_ptr<SafetensorsFile>> files_;
  std::map<std::string, Place, std::less<>> tensors_;
};

// A tensor on its way to a file. `contents` is called once, when its turn comes; what it returns is read before the
// next call.
struct TensorToWrite {
  std::string name;
  StoredType type = StoredType::kF32;
  std::vector<int64_t> shape;
  std::function<std::span<const std::byte>()> contents;
};

struct WrittenSafetensors {
  uint64_t bytes = 0;
  uint64_t checksum = 0;                                          // xxh64 of the file
  std::map<std::string, uint64_t, std::less<>> tensor_checksums;  // xxh64 of each tensor's bytes
};

using ByteSink = std::function<void(std::span<const std::byte>)>;

// Writes a whole file's bytes, in large pieces. Names are unique (WEFT_CHECK).
WrittenSafetensors write_safetensors(const ByteSink& sink, const std::vector<TensorToWrite>& tensors,
                                     const std::map<std::string, std::string>& metadata = {{"format", "pt"}});

// Writes model.safetensors, or where the data exceeds `maximum_shard_bytes` model-00001-of-0000N.safetensors and
// model.safetensors.index.json, tensors in the given order; all synced.
void write_safetensors_folder(AtomicFolder& folder, const std::vector<TensorToWrite>& tensors,
                              uint64_t maximum_shard_bytes);

}  // namespace weft
