#include "checkpoint/stored_tensor.h"

#include <array>
#include <cstring>
#include <memory>

#include "base/check.h"
#include "base/file.h"

namespace weft::checkpoint {

namespace {

constexpr std::array<std::pair<StoredType, at::ScalarType>, 17> kTypes = {{
    {StoredType::kBool, at::kBool},
    {StoredType::kU8, at::kByte},
    {StoredType::kI8, at::kChar},
    {StoredType::kF8E4M3, at::kFloat8_e4m3fn},
    {StoredType::kF8E5M2, at::kFloat8_e5m2},
    {StoredType::kF8E8M0, at::kFloat8_e8m0fnu},
    {StoredType::kI16, at::kShort},
    {StoredType::kU16, at::kUInt16},
    {StoredType::kF16, at::kHalf},
    {StoredType::kBF16, at::kBFloat16},
    {StoredType::kI32, at::kInt},
    {StoredType::kU32, at::kUInt32},
    {StoredType::kF32, at::kFloat},
    {StoredType::kI64, at::kLong},
    {StoredType::kU64, at::kUInt64},
    {StoredType::kF64, at::kDouble},
    {StoredType::kC64, at::kComplexFloat},
}};

}  // namespace

at::ScalarType scalar_type_of(StoredType type) {
  const auto& row = kTypes[static_cast<size_t>(type)];
  WEFT_CHECK(row.first == type);
  return row.second;
}

StoredType stored_type_of(at::ScalarType type) {
  for (const auto& row : kTypes) {
    if (row.second == type) return row.first;
  }
  WEFT_CHECK(!"files hold this element type");
  return StoredType::kF32;
}

std::span<std::byte> bytes_of(const at::Tensor& tensor) {
  WEFT_CHECK(tensor.is_contiguous() && tensor.device().is_cpu());
  return {static_cast<std::byte*>(tensor.data_ptr()), tensor.nbytes()};
}

at::Tensor tensor_of(std::span<const std::byte> bytes, StoredType type, const std::vector<int64_t>& shape) {
  auto tensor = at::empty(shape, scalar_type_of(type));
  const auto to = bytes_of(tensor);
  WEFT_CHECK(to.size() == bytes.size());
  if (!bytes.empty()) std::memcpy(to.data(), bytes.data(), bytes.size());
  return tensor;
}

std::vector<TensorToWrite> tensors_to_write(const NamedTensors& tensors, std::optional<at::ScalarType> type) {
  const auto ready = std::make_shared<at::Tensor>();  // what was handed out last
  std::vector<TensorToWrite> to_write;
  for (const auto& [name, tensor] : tensors) {
    const at::ScalarType stored = type.value_or(tensor.scalar_type());
    to_write.push_back({name, stored_type_of(stored), tensor.sizes().vec(), [tensor = tensor, stored, ready] {
                          *ready = tensor.detach().to(at::kCPU, stored).contiguous();
                          return std::span<const std::byte>(bytes_of(*ready));
                        }});
  }
  return to_write;
}

void write_tensor_file(const std::filesystem::path& path, const NamedTensors& tensors, FileSystem& file_system) {
  AtomicFile file(path, file_system);
  write_safetensors([&](std::span<const std::byte> data) { file.write(data); }, tensors_to_write(tensors));
  file.commit();
}

}  // namespace weft::checkpoint
