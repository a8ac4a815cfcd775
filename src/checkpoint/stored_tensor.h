// Between tensors in memory and bytes in files.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "base/file_system.h"
#include "base/safetensors_file.h"

namespace weft::checkpoint {

[[nodiscard]] at::ScalarType scalar_type_of(StoredType type);
[[nodiscard]] StoredType stored_type_of(at::ScalarType type);  // WEFT_CHECK: files have this type

// The bytes of a contiguous tensor on the CPU.
[[nodiscard]] std::span<std::byte> bytes_of(const at::Tensor& tensor);

// A copy of stored bytes (which may lie unaligned in a mapping) as a tensor of its own type.
[[nodiscard]] at::Tensor tensor_of(std::span<const std::byte> bytes, StoredType type,
                                   const std::vector<int64_t>& shape);

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

// For write_safetensors: each is brought to the CPU when its turn comes, and converted if `type` is given; one copy at
// a time is in memory.
[[nodiscard]] std::vector<TensorToWrite> tensors_to_write(const NamedTensors& tensors,
                                                          std::optional<at::ScalarType> type = {});

// Writes named tensors to one safetensors file that appears whole.
void write_tensor_file(const std::filesystem::path& path, const NamedTensors& tensors,
                       FileSystem& file_system = FileSystem::real());

}  // namespace weft::checkpoint
