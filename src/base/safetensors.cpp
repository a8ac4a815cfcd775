#include "base/safetensors.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <tuple>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/check.h"
#include "base/error.h"
#include "base/json.h"

namespace weft {

static_assert(std::endian::native == std::endian::little, "the format is little-endian and read in place");

namespace {

constexpr std::string_view kMetadataKey = "__metadata__";

struct TypeRow {
  StoredType type;
  std::string_view name;
  uint64_t bytes;
};
constexpr std::array<TypeRow, 17> kTypes = {{{StoredType::kBool, "BOOL", 1},
                                             {StoredType::kU8, "U8", 1},
                                             {StoredType::kI8, "I8", 1},
                                             {StoredType::kF8E4M3, "F8_E4M3", 1},
                                             {StoredType::kF8E5M2, "F8_E5M2", 1},
                                             {StoredType::kF8E8M0, "F8_E8M0", 1},
                                             {StoredType::kI16, "I16", 2},
                                             {StoredType::kU16, "U16", 2},
                                             {StoredType::kF16, "F16", 2},
                                             {StoredType::kBF16, "BF16", 2},
                                             {StoredType::kI32, "I32", 4},
                                             {StoredType::kU32, "U32", 4},
                                             {StoredType::kF32, "F32", 4},
                                             {StoredType::kI64, "I64", 8},
                                             {StoredType::kU64, "U64", 8},
                                             {StoredType::kF64, "F64", 8},
                                             {StoredType::kC64, "C64", 8}}};

const TypeRow& row_of(StoredType type) {
  const auto& row = kTypes[static_cast<size_t>(type)];
  WEFT_CHECK(row.type == type);
  return row;
}

uint64_t offset_of(const JsonReader& value) {
  const int64_t offset = value.as_integer();
  if (offset < 0) value.fail(fmt::format("expected an offset, found {}", offset));
  return static_cast<uint64_t>(offset);
}

StoredTensor read_tensor(const std::string& name, const JsonReader& entry) {
  StoredTensor tensor;
  tensor.name = name;
  const auto type = entry.at("dtype");
  const auto known = stored_type_of(type.as_string());
  if (!known) type.fail(fmt::format("the element type {} is not supported", type.as_string()));
  tensor.type = *known;
  tensor.shape = entry.at("shape").as_integers();
  const auto offsets = entry.at("data_offsets");
  if (offsets.size() != 2) offsets.fail(fmt::format("expected [begin, end], found {} numbers", offsets.size()));
  tensor.begin = offset_of(offsets.at(0));
  tensor.end = offset_of(offsets.at(1));
  const auto bytes = stored_bytes(tensor.type, tensor.shape);
  if (!bytes) entry.fail(fmt::format("the shape {} has no possible size", shape_text(tensor.shape)));
  if (tensor.begin > tensor.end || tensor.end - tensor.begin != *bytes) {
    entry.fail(fmt::format("{} {} takes {} bytes, the offsets say {} to {}", type.as_string(), shape_text(tensor.shape),
                           *bytes, tensor.begin, tensor.end));
  }
  return tensor;
}

// Tensors in order of their offsets fill the data exactly.
void check_filled(const std::vector<StoredTensor>& tensors, uint64_t data_bytes, std::string_view origin) {
  uint64_t at = 0;
  const StoredTensor* before = nullptr;
  for (const auto& tensor : tensors) {
    if (tensor.end > data_bytes) {
      throw InputError(fmt::format("{}: tensor '{}' ends at byte {} of the data, which has {}: the file is truncated",
                                   origin, tensor.name, tensor.end, data_bytes));
    }
    if (tensor.begin < at) {
      throw InputError(fmt::format("{}: tensor '{}' overlaps '{}'", origin, tensor.name, before->name));
    }
    if (tensor.begin > at) {
      throw InputError(
          fmt::format("{}: {} bytes before tensor '{}' belong to no tensor", origin, tensor.begin - at, tensor.name));
    }
    at = tensor.end;
    before = &tensor;
  }
  if (at != data_bytes) {
    throw InputError(fmt::format("{}: {} bytes after the last tensor", origin, data_bytes - at));
  }
}

}  // namespace

std::string_view stored_type_name(StoredType type) { return row_of(type).name; }
uint64_t stored_type_size(StoredType type) { return row_of(type).bytes; }

std::optional<StoredType> stored_type_of(std::string_view name) {
  const auto row = std::find_if(kTypes.begin(), kTypes.end(), [&](const TypeRow& r) { return r.name == name; });
  return row == kTypes.end() ? std::nullopt : std::optional(row->type);
}

std::string shape_text(const std::vector<int64_t>& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

std::optional<uint64_t> stored_bytes(StoredType type, const std::vector<int64_t>& shape) {
  constexpr auto kLimit = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  uint64_t bytes = stored_type_size(type);
  for (const int64_t size : shape) {
    if (size < 0) return std::nullopt;
    if (__builtin_mul_overflow(bytes, static_cast<uint64_t>(size), &bytes) || bytes > kLimit) return std::nullopt;
  }
  return bytes;
}

uint64_t safetensors_header_length(std::string_view first_bytes, uint64_t file_bytes, std::string_view origin) {
  if (first_bytes.size() < 8 || file_bytes < 8) {
    throw InputError(fmt::format("{}: {} bytes, too short for a safetensors file", origin, file_bytes));
  }
  uint64_t length = 0;
  std::memcpy(&length, first_bytes.data(), 8);
  if (length > kMaximumSafetensorsHeader) {
    throw InputError(fmt::format("{}: the header claims {} bytes, more than {}: not a safetensors file", origin, length,
                                 kMaximumSafetensorsHeader));
  }
  if (length > file_bytes - 8) {
    throw InputError(fmt::format("{}: the header claims {} bytes, the file has {} after the length: it is truncated",
                                 origin, length, file_bytes - 8));
  }
  return length;
}

SafetensorsHeader parse_safetensors_header(std::string_view text, uint64_t file_bytes, std::string_view origin) {
  WEFT_CHECK(text.size() + 8 <= file_bytes);
  if (text.empty() || text.front() != '{') {
    throw InputError(fmt::format("{}: the header does not begin with '{{': not a safetensors file", origin));
  }
  const Json json = parse_json(text, origin, {.bytes = kMaximumSafetensorsHeader, .depth = 4});
  SafetensorsHeader header;
  header.data_offset = 8 + text.size();
  for (const auto& [name, entry] : JsonReader(json, origin).members()) {
    if (name == kMetadataKey) {
      for (const auto& [key, value] : entry.members()) header.metadata.emplace(key, value.as_string());
    } else {
      header.tensors.push_back(read_tensor(name, entry));
    }
  }
  // Empty tensors lie between others: with equal begins, they come first.
  std::stable_sort(header.tensors.begin(), header.tensors.end(), [](const StoredTensor& a, const StoredTensor& b) {
    return std::tie(a.begin, a.end) < std::tie(b.begin, b.end);
  });
  check_filled(header.tensors, file_bytes - header.data_offset, origin);
  return header;
}

SafetensorsLayout plan_safetensors(std::vector<StoredTensor> tensors,
                                   const std::map<std::string, std::string>& metadata) {
  std::sort(tensors.begin(), tensors.end(), [](const StoredTensor& a, const StoredTensor& b) {
    const auto size_a = stored_type_size(a.type), size_b = stored_type_size(b.type);
    return size_a != size_b ? size_a > size_b : a.name < b.name;
  });
  Json json = Json::object();
  if (!metadata.empty()) json[std::string(kMetadataKey)] = metadata;
  uint64_t at = 0;
  for (auto& tensor : tensors) {
    const auto bytes = stored_bytes(tensor.type, tensor.shape);
    WEFT_CHECK(bytes.has_value() && tensor.name != kMetadataKey && !json.contains(tensor.name));
    tensor.begin = at;
    tensor.end = at += *bytes;
    json[tensor.name] = {{"dtype", stored_type_name(tensor.type)},
                         {"shape", tensor.shape},
                         {"data_offsets", {tensor.begin, tensor.end}}};
  }
  std::string text = dump_json(json);
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const uint64_t length = text.size();
  SafetensorsLayout layout;
  layout.prefix.assign(reinterpret_cast<const char*>(&length), 8);
  layout.prefix += text;
  layout.header.tensors = std::move(tensors);
  layout.header.metadata = metadata;
  layout.header.data_offset = layout.prefix.size();
  return layout;
}

}  // namespace weft
