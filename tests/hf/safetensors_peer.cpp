// For compare_with_safetensors.py: reads pairs of paths from standard input, a line each. Each first file is read and
// written again to the second; the answer is a line, "ok" or why it was refused.
#include <iostream>
#include <string>

#include "base/error.h"
#include "base/file.h"
#include "base/safetensors_file.h"

namespace {

void copy(const std::string& from, const std::string& to) {
  const weft::SafetensorsFile file(from);
  std::vector<weft::TensorToWrite> tensors;
  for (const auto& tensor : file.header().tensors) {
    tensors.push_back({tensor.name, tensor.type, tensor.shape, [&file, &tensor] { return file.data(tensor); }});
  }
  weft::AtomicFile out(to);
  weft::write_safetensors([&](std::span<const std::byte> data) { out.write(data); }, tensors, file.header().metadata);
  out.commit();
}

}  // namespace

int main() {
  std::string from, to;
  while (std::cin >> from >> to) {
    try {
      copy(from, to);
      std::cout << "ok" << std::endl;
    } catch (const weft::InputError& error) {
      std::string reason = error.what();  // a tensor's name may hold anything
      for (char& c : reason) c = c == '\n' ? ' ' : c;
      std::cout << "refused: " << reason << std::endl;
    }
  }
}
