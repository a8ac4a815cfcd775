#include "base/manifest.h"

#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "base/check.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/json.h"

namespace weft {

namespace {

constexpr std::string_view kFormat = "weft checkpoint";
constexpr std::string_view kFirstLine = "{\"checksum\": \"";  // then 16 digits, "\",\n"
constexpr size_t kFirstLineBytes = kFirstLine.size() + 16 + 3;
constexpr size_t kMaximumBytes = size_t{1} << 30, kMaximumDepth = 16;
constexpr size_t kMaximumPieces = 4096;  // of one tensor: their boxes are compared in pairs

OrderedJson to_json(const TensorPiece& piece) {
  return {{"file", piece.file},
          {"tensor", piece.tensor},
          {"offset", piece.box.offset},
          {"shape", piece.box.shape},
          {"xxh64", hash_text(piece.checksum)}};
}

OrderedJson to_json(const ManifestTensor& tensor) {
  OrderedJson pieces = OrderedJson::array();
  for (const auto& piece : tensor.pieces) pieces.push_back(to_json(piece));
  return {{"state", tensor.state},
          {"path", tensor.path},
          {"dtype", stored_type_name(tensor.type)},
          {"shape", tensor.shape},
          {"pieces", pieces}};
}

OrderedJson to_json(const std::vector<ManifestFile>& files) {
  OrderedJson json = OrderedJson::array();
  for (const auto& file : files) {
    json.push_back({{"name", file.name}, {"bytes", file.bytes}, {"xxh64", hash_text(file.checksum)}});
  }
  return json;
}

OrderedJson to_json(const std::vector<ManifestTensor>& tensors) {
  OrderedJson json = OrderedJson::array();
  for (const auto& tensor : tensors) json.push_back(to_json(tensor));
  return json;
}

OrderedJson optimizer_json(const std::vector<ManifestOptimizerGroup>& groups) {
  OrderedJson json = OrderedJson::array();
  for (const auto& group : groups) {
    json.push_back({{"name", group.name},
                    {"kind", group.kind},
                    {"convention", group.convention},
                    {"updates", group.updates},
                    {"parameters", group.parameters}});
  }
  return json;
}

uint64_t checked_hash(std::string_view text, std::string_view place) {
  try {
    return parse_hash(text);
  } catch (const InputError& error) {
    throw InputError(fmt::format("{}: {}", place, error.what()));
  }
}

uint64_t hash_of(const JsonReader& value) {
  return checked_hash(value.as_string(), value.origin() + ": " + value.path());
}

int64_t count_of(const JsonReader& object, std::string_view key) {
  const auto value = object.at(key);
  const int64_t count = value.as_integer();
  if (count < 0) value.fail(fmt::format("expected a count, found {}", count));
  return count;
}

std::string file_name_of(const JsonReader& value) {
  const std::string& name = value.as_string();
  const bool plain =
      !name.empty() && name.front() != '.' && name.find_first_of(std::string_view("/\\\0", 3)) == std::string::npos;
  if (!plain || name == kManifestName) value.fail(fmt::format("'{}' is not the name of a checkpoint's file", name));
  return name;
}

TensorPiece piece_of(const JsonReader& json, const ManifestTensor& tensor) {
  TensorPiece piece;
  piece.file = file_name_of(json.at("file"));
  piece.tensor = json.string("tensor");
  piece.box = {json.at("offset").as_integers(), json.at("shape").as_integers()};
  piece.checksum = hash_of(json.at("xxh64"));
  const auto& [offset, shape] = piece.box;
  bool inside = offset.size() == tensor.shape.size() && shape.size() == tensor.shape.size();
  for (size_t dim = 0; inside && dim < tensor.shape.size(); ++dim) {
    inside = offset[dim] >= 0 && shape[dim] >= 0 && offset[dim] <= tensor.shape[dim] &&
             shape[dim] <= tensor.shape[dim] - offset[dim];
  }
  if (!inside) {
    json.fail(fmt::format("the piece at {} of shape {} does not lie in '{}' of shape {}", shape_text(offset),
                          shape_text(shape), tensor.path, shape_text(tensor.shape)));
  }
  return piece;
}

// Inside the tensor, without overlap and of the tensor's size in all: the pieces fill it.
void check_filled(const ManifestTensor& tensor, const JsonReader& json) {
  uint64_t filled = 0;
  for (size_t i = 0; i < tensor.pieces.size(); ++i) {
    const uint64_t bytes = stored_bytes(tensor.type, tensor.pieces[i].box.shape).value();
    filled += bytes;
    for (size_t j = 0; bytes > 0 && j < i; ++j) {
      if (overlap(tensor.pieces[i].box, tensor.pieces[j].box)) json.fail(fmt::format("pieces {} and {} overlap", j, i));
    }
  }
  if (const auto bytes = stored_bytes(tensor.type, tensor.shape).value(); filled != bytes) {
    json.fail(fmt::format("the pieces hold {} bytes of {}", filled, bytes));
  }
}

ManifestTensor tensor_of(const JsonReader& json) {
  ManifestTensor tensor;
  tensor.state = json.string("state");
  tensor.path = json.string("path");
  const auto type = stored_type_of(json.string("dtype"));
  if (!type) json.at("dtype").fail(fmt::format("unknown element type {}", json.string("dtype")));
  tensor.type = *type;
  tensor.shape = json.at("shape").as_integers();
  if (!stored_bytes(tensor.type, tensor.shape)) json.at("shape").fail("has no possible size");
  const auto pieces = json.at("pieces");
  if (pieces.size() > kMaximumPieces) pieces.fail(fmt::format("more than {} pieces", kMaximumPieces));
  for (const auto& piece : pieces.items()) tensor.pieces.push_back(piece_of(piece, tensor));
  return tensor;
}

ManifestOptimizerGroup group_of(const JsonReader& json) {
  return {json.string("name"), json.string("kind"), json.string("convention"), count_of(json, "updates"),
          json.at("parameters").as_strings()};
}

void read_scalars(const JsonReader& json, Manifest& manifest) {
  manifest.step = count_of(json, "step");
  manifest.samples = count_of(json, "samples");
  manifest.tokens = count_of(json, "tokens");
  manifest.seed = hash_of(json.at("seed"));
  manifest.parameter_hash = hash_of(json.at("parameter_hash"));
  if (json.has("validation_loss")) manifest.validation_loss = json.number("validation_loss");
  const auto configuration = json.at("configuration");
  manifest.configuration_hash = hash_of(configuration.at("hash"));
  for (const auto& [key, value] : configuration.at("fields").members()) {
    manifest.fields.emplace(key, value.as_string());
  }
  const auto data = json.at("data");
  manifest.data_fingerprint = hash_of(data.at("fingerprint"));
  for (const auto& source : data.at("sources").items()) {
    manifest.sources.push_back({source.string("name"), count_of(source, "epoch"), count_of(source, "index")});
  }
}

ManifestFile file_of(const JsonReader& json) {
  return {file_name_of(json.at("name")), static_cast<uint64_t>(count_of(json, "bytes")), hash_of(json.at("xxh64"))};
}

void read_contents(const JsonReader& json, Manifest& manifest) {
  std::set<std::string, std::less<>> files;
  for (const auto& file : json.at("files").items()) {
    manifest.files.push_back(file_of(file));
    if (!files.insert(manifest.files.back().name).second) file.fail("the file is listed twice");
  }
  std::set<std::pair<std::string, std::string>> tensors;
  for (const auto& entry : json.at("tensors").items()) {
    manifest.tensors.push_back(tensor_of(entry));
    const auto& tensor = manifest.tensors.back();
    check_filled(tensor, entry.at("pieces"));
    if (!tensors.emplace(tensor.state, tensor.path).second) entry.fail("the tensor is listed twice");
    for (const auto& piece : tensor.pieces) {
      if (!files.contains(piece.file)) entry.fail(fmt::format("its file '{}' is not listed", piece.file));
    }
  }
}

}  // namespace

const ManifestTensor* Manifest::find(std::string_view state, std::string_view path) const {
  for (const auto& tensor : tensors) {
    if (tensor.path == path && tensor.state == state) return &tensor;
  }
  return nullptr;
}

std::string manifest_part_text(const ManifestPart& part) {
  return dump_json(OrderedJson{{"files", to_json(part.files)}, {"tensors", to_json(part.tensors)}});
}

ManifestPart parse_manifest_part(std::string_view text, std::string_view origin) {
  const Json parsed = parse_json(text, origin, {.bytes = kMaximumBytes, .depth = kMaximumDepth});
  const JsonReader json(parsed, origin);
  ManifestPart part;
  for (const auto& file : json.at("files").items()) part.files.push_back(file_of(file));
  for (const auto& tensor : json.at("tensors").items()) part.tensors.push_back(tensor_of(tensor));
  return part;
}

void add_part(ManifestPart& all, ManifestPart part) {
  std::map<std::pair<std::string, std::string>, size_t> places;
  for (size_t i = 0; i < all.tensors.size(); ++i)
    places.emplace(std::pair(all.tensors[i].state, all.tensors[i].path), i);
  for (ManifestTensor& tensor : part.tensors) {
    const auto [place, is_new] = places.emplace(std::pair(tensor.state, tensor.path), all.tensors.size());
    if (is_new) {
      all.tensors.push_back(std::move(tensor));
      continue;
    }
    ManifestTensor& joined = all.tensors[place->second];
    if (joined.shape != tensor.shape || joined.type != tensor.type) {
      throw InputError(fmt::format("{} of '{}' is {} {} on one rank, {} {} on another", tensor.state, tensor.path,
                                   stored_type_name(joined.type), shape_text(joined.shape),
                                   stored_type_name(tensor.type), shape_text(tensor.shape)));
    }
    for (TensorPiece& piece : tensor.pieces) joined.pieces.push_back(std::move(piece));
  }
  for (ManifestFile& file : part.files) all.files.push_back(std::move(file));
}

std::string manifest_text(const Manifest& manifest) {
  OrderedJson json;
  json["format"] = kFormat;
  json["version"] = kManifestVersion;
  json["step"] = manifest.step;
  json["samples"] = manifest.samples;
  json["tokens"] = manifest.tokens;
  json["seed"] = hash_text(manifest.seed);
  json["parameter_hash"] = hash_text(manifest.parameter_hash);
  json["validation_loss"] = manifest.validation_loss ? OrderedJson(*manifest.validation_loss) : OrderedJson(nullptr);
  json["configuration"] = {{"hash", hash_text(manifest.configuration_hash)}, {"fields", manifest.fields}};
  OrderedJson sources = OrderedJson::array();
  for (const auto& source : manifest.sources) {
    sources.push_back({{"name", source.name}, {"epoch", source.epoch}, {"index", source.index}});
  }
  json["data"] = {{"fingerprint", hash_text(manifest.data_fingerprint)}, {"sources", sources}};
  json["optimizer"] = optimizer_json(manifest.optimizer);
  json["files"] = to_json(manifest.files);
  json["tensors"] = to_json(manifest.tensors);
  const std::string body = dump_json(json, 1).substr(2) + "\n";  // without the opening "{\n"
  return fmt::format("{}{}\",\n{}", kFirstLine, hash_text(xxh64(body)), body);
}

Manifest parse_manifest(std::string_view text, std::string_view origin) {
  const bool begins =
      text.size() > kFirstLineBytes && text.starts_with(kFirstLine) && text.substr(kFirstLineBytes - 3, 3) == "\",\n";
  if (!begins) throw InputError(fmt::format("{}: does not begin as a manifest does", origin));
  const std::string_view body = text.substr(kFirstLineBytes);
  const uint64_t claimed = checked_hash(text.substr(kFirstLine.size(), 16), fmt::format("{}: checksum", origin));
  const uint64_t found = xxh64(body);
  if (claimed != found) {
    throw InputError(fmt::format("{}: damaged: the contents' checksum is {}, the first line says {}", origin,
                                 hash_text(found), hash_text(claimed)));
  }
  const Json parsed = parse_json(text, origin, {.bytes = kMaximumBytes, .depth = kMaximumDepth});
  const JsonReader json(parsed, origin);
  if (json.string("format") != kFormat) json.at("format").fail("not a weft checkpoint");
  if (const int64_t version = json.integer("version"); version != kManifestVersion) {
    json.at("version").fail(fmt::format("version {} is not known here, {} is", version, kManifestVersion));
  }
  Manifest manifest;
  read_scalars(json, manifest);
  for (const auto& group : json.at("optimizer").items()) manifest.optimizer.push_back(group_of(group));
  read_contents(json, manifest);
  return manifest;
}

}  // namespace weft
