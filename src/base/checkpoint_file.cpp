#include "base/checkpoint_file.h"

#include <algorithm>
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

// The pieces of one tensor in a file, each with the place of its bytes in the part's contents.
struct PlannedPiece {
  TensorPiece piece;
  size_t begin = 0, bytes = 0;
};

std::vector<PlannedPiece> plan_pieces(const std::string& file, const StateToWrite& tensor) {
  const std::string name = name_in_file(tensor);
  const auto whole = whole_part(tensor.shape);
  if (!tensor.part) {
    return {{{file, name, whole.box, 0}, 0, static_cast<size_t>(stored_bytes(tensor.type, tensor.shape).value())}};
  }
  std::vector<PlannedPiece> planned;
  size_t begin = 0;
  for (Box& box : boxes_of(*tensor.part)) {
    const size_t bytes = static_cast<size_t>(stored_bytes(tensor.type, box.shape).value());
    std::string piece_name = box == whole.box ? name : fmt::format("{}@{}", name, fmt::join(box.offset, ","));
    planned.push_back({{file, std::move(piece_name), std::move(box), 0}, begin, bytes});
    begin += bytes;
  }
  return planned;
}

}  // namespace

ManifestPart write_pieces(const fs::path& folder, const std::string& file, const std::vector<StateToWrite>& tensors,
                          FileSystem& file_system) {
  std::vector<TensorToWrite> to_write;
  ManifestPart part;
  for (const auto& tensor : tensors) {
    ManifestTensor& listed =
        part.tensors.emplace_back(ManifestTensor{tensor.state, tensor.path, tensor.type, tensor.shape, {}});
    for (PlannedPiece& planned : plan_pieces(file, tensor)) {
      const auto contents = [&tensor, begin = planned.begin, bytes = planned.bytes] {
        const std::span<const std::byte> all = tensor.contents();
        WEFT_CHECK(begin + bytes <= all.size());
        return all.subspan(begin, bytes);
      };
      to_write.push_back({planned.piece.tensor, tensor.type, planned.piece.box.shape, contents});
      listed.pieces.push_back(std::move(planned.piece));
    }
  }
  const auto output = file_system.create(folder / file);
  const auto written = write_safetensors([&](std::span<const std::byte> data) { output->write(data); }, to_write);
  output->sync();
  output->close();
  part.files.push_back({file, written.bytes, written.checksum});
  for (ManifestTensor& tensor : part.tensors) {
    for (TensorPiece& piece : tensor.pieces) piece.checksum = written.tensor_checksums.at(piece.tensor);
  }
  return part;
}

CheckpointWriter::CheckpointWriter(fs::path folder, FileSystem& file_system)
    : file_system_(file_system), folder_(std::move(folder)), aside_(folder_, file_system) {}

void CheckpointWriter::write_tensors(const std::string& file, const std::vector<StateToWrite>& tensors) {
  add_part(written_, write_pieces(aside_.partial(), file, tensors, file_system_));
}

void CheckpointWriter::add(ManifestPart part) {
  for (const ManifestFile& file : part.files) {
    std::error_code error;
    const auto bytes = fs::file_size(aside_.partial() / file.name, error);
    if (error || bytes != file.bytes) {
      throw Error(fmt::format("{} is not in {} as another rank wrote it: all ranks must see the same folder", file.name,
                              aside_.partial().string()));
    }
  }
  add_part(written_, std::move(part));
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
  const std::string text = manifest_text(manifest);
  try {
    (void)parse_manifest(text, kManifestName);
  } catch (const InputError& error) {
    throw Error(fmt::format("{}: what was written is no checkpoint: {}", folder_.string(), error.what()));
  }
  aside_.write(kManifestName, text);
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
  if (stored->type != tensor.type || stored->shape != piece.box.shape) {
    throw InputError(fmt::format("{}: tensor '{}' is {} {}, the manifest says {} {}", file.path().string(),
                                 piece.tensor, stored_type_name(stored->type), shape_text(stored->shape),
                                 stored_type_name(tensor.type), shape_text(piece.box.shape)));
  }
  const auto data = file.data(*stored);
  if (checked_.contains({piece.file, piece.tensor})) return data;
  if (xxh64(data) != piece.checksum) {
    throw InputError(fmt::format("{}: tensor '{}' is damaged: its checksum is not the manifest's", file.path().string(),
                                 piece.tensor));
  }
  checked_.emplace(piece.file, piece.tensor);
  return data;
}

void CheckpointReader::read(const ManifestTensor& tensor, std::span<std::byte> out) {
  read_part(tensor, whole_part(tensor.shape), out);
}

void CheckpointReader::read_part(const ManifestTensor& tensor, const TensorPart& part, std::span<std::byte> out) {
  const size_t element = stored_type_size(tensor.type);
  WEFT_CHECK(part.box.shape.size() == tensor.shape.size());
  WEFT_CHECK(out.size() == static_cast<size_t>(part.elements()) * element);
  std::byte* to = out.data();
  for (const Box& box : boxes_of(part)) {
    for (const auto& piece : tensor.pieces) {
      if (overlap(piece.box, box)) copy_shared(piece.box, checked_piece(tensor, piece).data(), box, to, element);
    }
    to += static_cast<size_t>(box.elements()) * element;
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
