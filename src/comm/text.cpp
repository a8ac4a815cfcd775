#include "comm/text.h"

#include <cstdint>
#include <numeric>

namespace weft::comm {

std::string broadcast_text(std::string text, int root, Communicator& group, std::string_view what) {
  auto size = static_cast<int64_t>(text.size());
  group.broadcast({&size, 1, mesh::ElementType::kInt64}, root, what)->wait();
  text.resize(static_cast<size_t>(size));
  group.broadcast({text.data(), size, mesh::ElementType::kUInt8}, root, what)->wait();
  return text;
}

std::vector<std::string> gather_texts(const std::string& text, Communicator& group, std::string_view what) {
  const auto members = static_cast<size_t>(group.size());
  const auto size = static_cast<int64_t>(text.size());
  std::vector<int64_t> sizes(members);
  const std::vector<int64_t> one_each(members, 1);
  group
      .all_gather({&size, 1, mesh::ElementType::kInt64}, {sizes.data(), group.size(), mesh::ElementType::kInt64},
                  one_each, what)
      ->wait();
  const int64_t total = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
  std::string joined(static_cast<size_t>(total), '\0');
  group
      .all_gather({text.data(), size, mesh::ElementType::kUInt8}, {joined.data(), total, mesh::ElementType::kUInt8},
                  sizes, what)
      ->wait();
  std::vector<std::string> texts;
  size_t begin = 0;
  for (const int64_t bytes : sizes) {
    texts.push_back(joined.substr(begin, static_cast<size_t>(bytes)));
    begin += static_cast<size_t>(bytes);
  }
  return texts;
}

}  // namespace weft::comm
