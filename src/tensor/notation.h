// The line of factors of a rule (rule.h), read once.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/rule.h"

namespace weft::tensor {

class Notation {
 public:
  // A notation that does not parse is a bug (WEFT_CHECK).
  Notation(std::string_view notation, std::string_view whole);
  // For inputs of these shapes. Throws Error where their number of dims does not match.
  [[nodiscard]] Factors factors(std::string_view name, Rule::Inputs inputs) const;

 private:
  struct Dims {
    bool leading = false;      // begins with "..."
    std::vector<int> factors;  // of the dims behind
  };
  Dims read(std::string_view words);
  int factor(std::string_view word);

  std::string text_;
  std::map<std::string, int, std::less<>> names_;
  std::vector<Dims> inputs_;
  Dims output_;
  std::vector<int> whole_;
};

}  // namespace weft::tensor
