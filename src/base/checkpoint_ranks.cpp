#include "base/checkpoint_ranks.h"

#include <optional>
#include <set>
#include <span>

#include <fmt/format.h>

#include "base/check.h"
#include "base/checkpoint_folder.h"
#include "base/error.h"

namespace weft {

namespace {

// The first character of what a rank says.
constexpr char kDone = 'd', kFailed = 'f', kInput = 'i';

std::string said_by(const std::function<std::string()>& part) {
  try {
    return kDone + part();
  } catch (const InputError& error) {
    return kInput + std::string(error.what());
  } catch (const Error& error) {
    return kFailed + std::string(error.what());
  }
}

}  // namespace

std::vector<std::string> on_all_ranks(const CheckpointRanks& ranks, const std::function<std::string()>& part) {
  if (ranks.size == 1) return {part()};
  std::vector<std::string> all = ranks.gather(said_by(part));
  WEFT_CHECK(all.size() == static_cast<size_t>(ranks.size));
  for (int rank = 0; rank < ranks.size; ++rank) {
    std::string& said = all[static_cast<size_t>(rank)];
    WEFT_CHECK(!said.empty());
    const char how = said.front();
    said.erase(0, 1);
    if (how == kInput) throw InputError(fmt::format("rank {}: {}", rank, said));
    if (how == kFailed) throw Error(fmt::format("rank {}: {}", rank, said));
  }
  return all;
}

std::string tensor_file(std::string_view state, int rank, int ranks) {
  if (ranks == 1) return state == "value" ? kParametersFile : kOptimizerFile;
  return fmt::format("rank-{}.safetensors", rank);
}

std::filesystem::path write_checkpoint_together(const std::filesystem::path& folder, const CheckpointToWrite& contents,
                                                const CheckpointRanks& ranks, FileSystem& file_system) {
  std::optional<CheckpointWriter> writer;  // rank 0's
  const std::string aside = on_all_ranks(ranks, [&]() -> std::string {
                              if (ranks.rank != 0) return "";
                              writer.emplace(folder, file_system);
                              return writer->partial().filename().string();
                            }).front();
  const auto written = on_all_ranks(ranks, [&] {
    ManifestPart part;
    for (const auto& [file, tensors] : contents.files) {
      add_part(part, write_pieces(folder.parent_path() / aside, file, tensors, file_system));
    }
    return manifest_part_text(part);
  });
  on_all_ranks(ranks, [&]() -> std::string {
    if (!writer) return "";
    for (size_t rank = 0; rank < written.size(); ++rank) {
      writer->add(parse_manifest_part(written[rank], fmt::format("what rank {} wrote", rank)));
    }
    for (const auto& [name, text] : contents.texts) writer->write_file(name, text);
    writer->commit(contents.manifest);
    return "";
  });
  return folder;
}

Manifest reshard_checkpoint(const std::filesystem::path& from, const std::filesystem::path& to, int ranks,
                            FileSystem& file_system) {
  if (std::filesystem::exists(to)) throw InputError(fmt::format("{}: exists already", to.string()));
  const std::filesystem::path parent = to.parent_path().empty() ? "." : to.parent_path();
  if (!std::filesystem::is_directory(parent)) throw InputError(fmt::format("{}: not a folder", parent.string()));
  CheckpointReader reader(from);
  const Manifest& manifest = reader.manifest();
  CheckpointWriter writer(to, file_system);
  std::vector<std::byte> buffer;
  std::set<std::string> with_tensors;
  for (int rank = 0; rank < ranks; ++rank) {
    std::map<std::string, std::vector<StateToWrite>> files;
    for (const ManifestTensor& tensor : manifest.tensors) {
      for (const TensorPiece& piece : tensor.pieces) with_tensors.insert(piece.file);
      TensorPart held = whole_part(tensor.shape);
      held.range = part(held.elements(), ranks, rank);
      const auto contents = [&reader, &tensor, &buffer, held] {
        buffer.resize(static_cast<size_t>(held.elements()) * stored_type_size(tensor.type));
        reader.read_part(tensor, held, buffer);
        return std::span<const std::byte>(buffer);
      };
      files[tensor_file(tensor.state, rank, ranks)].push_back(
          {tensor.state, tensor.path, tensor.type, tensor.shape, contents, held});
    }
    for (const auto& [file, tensors] : files) writer.write_tensors(file, tensors);
  }
  for (const ManifestFile& file : manifest.files) {
    if (!with_tensors.contains(file.name) && !file.name.ends_with(".safetensors")) {
      writer.write_file(file.name, reader.read_text(file.name));
    }
  }
  writer.commit(manifest);
  return read_manifest(to);
}

}  // namespace weft
