// The safetensors format (docs/formats/safetensors.md): a header that is checked as hostile input, and its writing.
// No tensor library: contents are bytes. Files and folders of files are in base/safetensors_file.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weft {

// The element types of the format that fill whole bytes. F4 and F6 types are refused by name.
enum class StoredType : uint8_t {
  kBool,
  kU8,
  kI8,
  kF8E4M3,
  kF8E5M2,
  kF8E8M0,
  kI16,
  kU16,
  kF16,
  kBF16,
  kI32,
  kU32,
  kF32,
  kI64,
  kU64,
  kF64,
  kC64,
};

[[nodiscard]] std::string_view stored_type_name(StoredType type);  // "BF16", as in the file
[[nodiscard]] uint64_t stored_type_size(StoredType type);          // bytes
[[nodiscard]] std::optional<StoredType> stored_type_of(std::string_view name);

// "F32 [2, 3]", for messages.
[[nodiscard]] std::string shape_text(const std::vector<int64_t>& shape);

// The bytes of a tensor; none where they exceed 2^63 - 1 or a size is negative.
[[nodiscard]] std::optional<uint64_t> stored_bytes(StoredType type, const std::vector<int64_t>& shape);

struct StoredTensor {
  std::string name;
  StoredType type = StoredType::kF32;
  std::vector<int64_t> shape;  // empty: a scalar
  uint64_t begin = 0;          // bytes from the end of the header
  uint64_t end = 0;
};

struct SafetensorsHeader {
  std::vector<StoredTensor> tensors;  // by begin: they fill the data without holes or overlaps
  std::map<std::string, std::string> metadata;
  uint64_t data_offset = 0;  // where the data begins in the file
  [[nodiscard]] uint64_t file_bytes() const { return data_offset + (tensors.empty() ? 0 : tensors.back().end); }
};

// Largest header that is read, the limit of the reference implementation.
inline constexpr uint64_t kMaximumSafetensorsHeader = 100'000'000;

// The length of the header's text, from the first 8 bytes of a file of `file_bytes`. InputError names `origin`.
[[nodiscard]] uint64_t safetensors_header_length(std::string_view first_bytes, uint64_t file_bytes,
                                                 std::string_view origin);

// Checks and reads the header's text (the N bytes after the length). Everything that the header says is compared with
// the file's size: offsets inside the file, size = product of the shape, no holes, overlaps or trailing bytes.
// InputError names `origin`, the tensor and what is wrong.
[[nodiscard]] SafetensorsHeader parse_safetensors_header(std::string_view text, uint64_t file_bytes,
                                                         std::string_view origin);

// What a writer starts from: names, types and shapes; offsets are assigned.
struct SafetensorsLayout {
  SafetensorsHeader header;  // tensors in file order: widest elements first, then by name, so that all are aligned
  std::string prefix;        // the bytes of the file before the data: length, text, padding to a multiple of 8
};
[[nodiscard]] SafetensorsLayout plan_safetensors(std::vector<StoredTensor> tensors,
                                                 const std::map<std::string, std::string>& metadata);

}  // namespace weft
