#include "base/checkpoint_file.h"

#include <algorithm>
#include <cstring>
#include <unistd.h>

#include <fmt/format.h>

#include "base/check.h"
#include "base/checkpoint_folder.h"
#include "base/error.h"
#include "base/hash.h"

namespace weft {

namespace fs = std::filesystem;

namespace {

std::string name_in_file(const StateToWrite& tensor) {
  return tensor.state == "value" ? tensor.path : fmt::format("{}/{}", tensor.state, tensor.path);
}

// Copies a row-major box into its place in a row-major tensor, a run of the innermost dim at a time. `offset` and `box`
// are from `dim` inwards; strides are bytes.
void copy_box(const TensorPiece& piece, const std::vector<int64_t>& shape, size_t element, const std::byte*& from,
              std::byte* to, size_t dim) {
  size_t stride = element;
  for (size_t inner = dim + 1; inner < shape.size(); ++inner) stride *= static_cast<size_t>(shape[inner]);
  to += static_cast<size_t>(piece.offset[dim]) * stride;
  if (dim + 1 == shape.size()) {
    const size_t bytes = static_cast<size_t>(piece.shape[dim]) * stride;
    std::memcpy(to, from, bytes);
    from += bytes;
    return;
  }
  for (int64_t row = 0; row < piece.shape[dim]; ++row, to += stride) copy_box(piece, shape, element, from, to, dim + 1);
}

}  // namespace

CheckpointWriter::CheckpointWriter(fs::path folder, FileSystem& file_system)
    : file_system_(file_system), folder_(std::move(folder)), aside_(folder_, file_system) {}

void CheckpointWriter::write_tensors(const std::string& file, const std::vector<StateToWrite>& tensors) {
  std::vector<TensorToWrite> to_write;
  for (const auto& tensor : tensors) {
    to_write.push_back({name_in_file(tensor), tensor.type, tensor.shape, tensor.contents});
  }
  const auto output = aside_.create(file);
  const auto written = write_safetensors([&](std::span<const std::byte> data) { output->write(data); }, to_write);
  output->sync();
  output->close();
  written_.files.push_back({file, written.bytes, written.checksum});
  for (const auto& tensor : tensors) {
    const std::string name = name_in_file(tensor);
    TensorPiece whole{file, name, std::vector<int64_t>(tensor.shape.size(), 0), tensor.shape,
                      written.tensor_checksums.at(name)};
    written_.tensors.push_back({tensor.state, tensor.path, tensor.type, tensor.shape, {std::move(whole)}});
  }
}

void CheckpointWriter::write_file(const std::string& file, std::string_view contents) {
  aside_.write(file, contents);
  written_.files.push_back({file, contents.size(), xxh64(contents)});
}

void CheckpointWriter::write_others(const std::function<void(const fs::path&)>& write) {
  write(aside_.partial());
  for (const auto& entry : fs::directory_iterator(aside_.partial())) {
    const std::string name = entry.path().filename().string();
    const bool listed = std::any_of(written_.files.begin(), written_.files.end(),
                                    [&](const ManifestFile& file) { return file.name == name; });
    if (listed) continue;
    const MappedFile contents(entry.path());
    written_.files.push_back({name, contents.size(), xxh64(contents.bytes())});
  }
}

fs::path CheckpointWriter::commit(Manifest manifest) {
  manifest.files = std::move(written_.files);
  manifest.tensors = std::move(written_.tensors);
  aside_.write(kManifestName, manifest_text(manifest));
  if (!fs::exists(folder_)) {
    aside_.commit();
    return folder_;
  }
  fs::path replaced = folder_;
  replaced += fmt::format(".replaced.partial-{}", ::getpid());
  file_system_.rename(folder_, replaced);
  aside_.commit();
  file_system_.remove_all(replaced);
  return folder_;
}

CheckpointReader::CheckpointReader(fs::path folder) : folder_(std::move(folder)), manifest_(read_manifest(folder_)) {}

std::span<const std::byte> CheckpointReader::checked_piece(const ManifestTensor& tensor, const TensorPiece& piece) {
  auto place = files_.find(piece.file);
  if (place == files_.end()) {
    place = files_.emplace(piece.file, std::make_unique<SafetensorsFile>(folder_ / piece.file)).first;
  }
  const SafetensorsFile& file = *place->second;
  const StoredTensor* stored = file.find(piece.tensor);
  if (stored == nullptr) {
    throw InputError(fmt::format("{}: tensor '{}' is missing", file.path().string(), piece.tensor));
  }
  if (stored->type != tensor.type || stored->shape != piece.shape) {
    throw InputError(fmt::format("{}: tensor '{}' is {} {}, the manifest says {} {}", file.path().string(),
                                 piece.tensor, stored_type_name(stored->type), shape_text(stored->shape),
                                 stored_type_name(tensor.type), shape_text(piece.shape)));
  }
  const auto data = file.data(*stored);
  if (xxh64(data) != piece.checksum) {
    throw InputError(fmt::format("{}: tensor '{}' is damaged: its checksum is not the manifest's", file.path().string(),
                                 piece.tensor));
  }
  return data;
}

void CheckpointReader::read(const ManifestTensor& tensor, std::span<std::byte> out) {
  WEFT_CHECK(out.size() == stored_bytes(tensor.type, tensor.shape));
  for (const auto& piece : tensor.pieces) {
    const auto data = checked_piece(tensor, piece);
    if (data.empty()) continue;
    if (piece.shape == tensor.shape) {
      std::memcpy(out.data(), data.data(), data.size());
    } else {
      const std::byte* from = data.data();
      copy_box(piece, tensor.shape, stored_type_size(tensor.type), from, out.data(), 0);
    }
  }
}

bool CheckpointReader::has_file(std::string_view file) const {
  return std::any_of(manifest_.files.begin(), manifest_.files.end(),
                     [&](const ManifestFile& listed) { return listed.name == file; });
}

std::string CheckpointReader::read_text(std::string_view file) const {
  const auto path = folder_ / file;
  for (const auto& listed : manifest_.files) {
    if (listed.name != file) continue;
    std::string text = read_file(path);
    if (xxh64(text) != listed.checksum) {
      throw InputError(fmt::format("{}: damaged: its checksum is not the manifest's", path.string()));
    }
    return text;
  }
  throw InputError(fmt::format("{}: the checkpoint holds no such file", path.string()));
}

}  // namespace weft
