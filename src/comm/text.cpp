#include "comm/text.h"

namespace weft::comm {

std::string broadcast_text(std::string text, int root, Communicator& group, std::string_view what) {
  auto size = static_cast<int64_t>(text.size());
  group.broadcast({&size, 1, mesh::ElementType::kInt64}, root, what)->wait();
  text.resize(static_cast<size_t>(size));
  group.broadcast({text.data(), size, mesh::ElementType::kUInt8}, root, what)->wait();
  return text;
}

}  // namespace weft::comm
