// Any bytes as a safetensors header: either InputError, or a header whose tensors all lie inside the file.
#include <cstdlib>
#include <string_view>

#include "base/error.h"
#include "base/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  try {
    const uint64_t length = weft::safetensors_header_length(input.substr(0, 8), size, "fuzz");
    const auto header = weft::parse_safetensors_header(input.substr(8, length), size, "fuzz");
    for (const auto& tensor : header.tensors) {
      if (tensor.begin > tensor.end || tensor.end > size - header.data_offset) std::abort();
    }
    if (header.file_bytes() != size) std::abort();
  } catch (const weft::InputError&) {
  }
  return 0;
}
