#include "base/safetensors_file.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "base/check.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/json.h"

namespace weft {

namespace {

constexpr std::string_view kSingleName = "model.safetensors";
constexpr std::string_view kIndexName = "model.safetensors.index.json";

// Joins small tensors into large writes and hashes what passes.
class HashedOutput {
 public:
  explicit HashedOutput(const ByteSink& sink) : sink_(sink) {}

  void write(std::span<const std::byte> data) {
    hash_.update(data);
    bytes_ += data.size();
    if (buffer_.size() + data.size() <= kBuffer) {
      buffer_.insert(buffer_.end(), data.begin(), data.end());
      return;
    }
    flush();
    if (data.size() > kBuffer) {
      sink_(data);
    } else {
      buffer_.assign(data.begin(), data.end());
    }
  }

  void flush() {
    if (!buffer_.empty()) sink_(std::span<const std::byte>(buffer_));
    buffer_.clear();
  }

  [[nodiscard]] uint64_t bytes() const { return bytes_; }
  [[nodiscard]] uint64_t checksum() const { return hash_.digest(); }

 private:
  static constexpr size_t kBuffer = size_t{1} << 20;
  const ByteSink& sink_;
  StreamingHash hash_;
  std::vector<std::byte> buffer_;
  uint64_t bytes_ = 0;
};

SafetensorsHeader read_header(const MappedFile& file) {
  const std::string origin = file.path().string();
  const uint64_t length = safetensors_header_length(file.text().substr(0, 8), file.size(), origin);
  return parse_safetensors_header(file.text().substr(8, length), file.size(), origin);
}

std::string shard_name(size_t index, size_t count) {
  return fmt::format("model-{:05}-of-{:05}.safetensors", index + 1, count);
}

// Consecutive tensors, cut where the next would exceed the limit; a larger one stands alone.
std::vector<std::vector<TensorToWrite>> cut_into_shards(const std::vector<TensorToWrite>& tensors, uint64_t limit) {
  std::vector<std::vector<TensorToWrite>> shards;
  uint64_t bytes = 0;
  for (const auto& tensor : tensors) {
    const uint64_t size = stored_bytes(tensor.type, tensor.shape).value();
    if (shards.empty() || (bytes + size > limit && !shards.back().empty())) {
      shards.emplace_back();
      bytes = 0;
    }
    shards.back().push_back(tensor);
    bytes += size;
  }
  if (shards.empty()) shards.emplace_back();
  return shards;
}

void write_shard(AtomicFolder& folder, const std::string& name, const std::vector<TensorToWrite>& tensors) {
  const auto file = folder.create(name);
  write_safetensors([&](std::span<const std::byte> data) { file->write(data); }, tensors);
  file->sync();
  file->close();
}

}  // namespace

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path) : file_(path), header_(read_header(file_)) {
  for (size_t i = 0; i < header_.tensors.size(); ++i) by_name_.emplace(header_.tensors[i].name, i);
}

const StoredTensor* SafetensorsFile::find(std::string_view name) const {
  const auto place = by_name_.find(name);
  return place == by_name_.end() ? nullptr : &header_.tensors[place->second];
}

std::span<const std::byte> SafetensorsFile::data(const StoredTensor& tensor) const {
  return file_.bytes().subspan(header_.data_offset + tensor.begin, tensor.end - tensor.begin);
}

bool SafetensorsFolder::present(const std::filesystem::path& directory) {
  return std::filesystem::exists(directory / kSingleName) || std::filesystem::exists(directory / kIndexName);
}

SafetensorsFolder::SafetensorsFolder(const std::filesystem::path& directory) {
  if (std::filesystem::exists(directory / kSingleName)) {
    files_.push_back(std::make_unique<SafetensorsFile>(directory / kSingleName));
    add(*files_.back());
    return;
  }
  const auto index_path = directory / kIndexName;
  if (!std::filesystem::exists(index_path)) {
    throw InputError(fmt::format("{}: holds neither {} nor {}", directory.string(), kSingleName, kIndexName));
  }
  const Json index = read_json_file(index_path);
  const auto weight_map = JsonReader(index, index_path.string()).at("weight_map");
  std::map<std::string, std::set<std::string>> names_of;
  for (const auto& [tensor, file] : weight_map.members()) {
    const std::string& name = file.as_string();
    if (name.empty() || std::filesystem::path(name).filename() != name || name == "." || name == "..") {
      file.fail(fmt::format("'{}' is not the name of a file in this directory", name));
    }
    names_of[name].insert(tensor);
  }
  for (const auto& [name, tensors] : names_of) {
    files_.push_back(std::make_unique<SafetensorsFile>(directory / name));
    add(*files_.back());
    for (const auto& tensor : tensors) {
      if (files_.back()->find(tensor) == nullptr) {
        throw InputError(fmt::format("{}: the index {} says that it holds tensor '{}', it does not",
                                     (directory / name).string(), kIndexName, tensor));
      }
    }
    for (const auto& tensor : files_.back()->header().tensors) {
      if (!tensors.contains(tensor.name)) {
        throw InputError(fmt::format("{}: holds tensor '{}', which the index {} does not place there",
                                     (directory / name).string(), tensor.name, kIndexName));
      }
    }
  }
}

void SafetensorsFolder::add(const SafetensorsFile& file) {
  for (const auto& tensor : file.header().tensors) tensors_.emplace(tensor.name, Place{&file, &tensor});
}

const SafetensorsFolder::Place* SafetensorsFolder::find(std::string_view name) const {
  const auto place = tensors_.find(name);
  return place == tensors_.end() ? nullptr : &place->second;
}

WrittenSafetensors write_safetensors(const ByteSink& sink, const std::vector<TensorToWrite>& tensors,
                                     const std::map<std::string, std::string>& metadata) {
  std::vector<StoredTensor> planned;
  std::map<std::string_view, const TensorToWrite*> by_name;
  for (const auto& tensor : tensors) {
    planned.push_back({.name = tensor.name, .type = tensor.type, .shape = tensor.shape});
    by_name.emplace(tensor.name, &tensor);
  }
  const auto layout = plan_safetensors(std::move(planned), metadata);
  HashedOutput output(sink);
  output.write(std::as_bytes(std::span(layout.prefix)));
  WrittenSafetensors written;
  for (const auto& tensor : layout.header.tensors) {
    const auto contents = by_name.at(tensor.name)->contents();
    WEFT_CHECK(contents.size() == tensor.end - tensor.begin);
    output.write(contents);
    written.tensor_checksums.emplace(tensor.name, xxh64(contents));
  }
  output.flush();
  written.bytes = output.bytes();
  written.checksum = output.checksum();
  return written;
}

void write_safetensors_folder(AtomicFolder& folder, const std::vector<TensorToWrite>& tensors,
                              uint64_t maximum_shard_bytes) {
  const auto shards = cut_into_shards(tensors, maximum_shard_bytes);
  if (shards.size() == 1) {
    write_shard(folder, std::string(kSingleName), shards.front());
    return;
  }
  Json weight_map = Json::object();
  uint64_t total = 0;
  for (size_t i = 0; i < shards.size(); ++i) {
    const std::string name = shard_name(i, shards.size());
    write_shard(folder, name, shards[i]);
    for (const auto& tensor : shards[i]) {
      weight_map[tensor.name] = name;
      total += stored_bytes(tensor.type, tensor.shape).value();
    }
  }
  const OrderedJson index = {{"metadata", {{"total_size", total}}}, {"weight_map", weight_map}};
  folder.write(kIndexName, dump_json(index, 2) + "\n");
}

}  // namespace weft
