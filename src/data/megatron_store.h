// Megatron's indexed datasets: PREFIX.idx says how PREFIX.bin is cut into sequences and these into documents.
#pragma once

#include <filesystem>

#include "data/token_store.h"

namespace weft::data {

class MegatronReader {
 public:
  // `index` is the path of the .idx. Every number of it is checked against the others and against both files' sizes.
  [[nodiscard]] static TokenStore open(const std::filesystem::path& index);
};

}  // namespace weft::data
