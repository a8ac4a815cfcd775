#include "base/check.h"

#include <string>

#include "base/error.h"

namespace weft {

void check_failed(std::string_view condition, const char* file, int line) {
  throw Error(std::string(file) + ":" + std::to_string(line) + ": internal check failed: " + std::string(condition));
}

}  // namespace weft
