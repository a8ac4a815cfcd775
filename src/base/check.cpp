#include "base/check.h"

#include <string>

#include "base/error.h"

namespace weft {

void check_failed(std::string_view condition, std::source_location where) {
  throw Error(std::string(where.file_name()) + ":" + std::to_string(where.line()) + ": internal check failed: " +
              std::string(condition));
}

}  // namespace weft
