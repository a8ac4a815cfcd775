#include "tensor/notation.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/check.h"
#include "base/error.h"

namespace weft::tensor {
namespace {

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

// Leading dims get numbers from here on, counted from the last of them.
constexpr int kLeading = 1000;

}  // namespace

Notation::Notation(std::string_view notation, std::string_view whole) : text_(notation) {
  const size_t arrow = notation.find(" -> ");
  WEFT_CHECK(arrow != std::string_view::npos);
  for (const std::string_view input : split(notation.substr(0, arrow), ',')) inputs_.push_back(read(input));
  output_ = read(notation.substr(arrow + 4));
  for (const std::string_view word : split(whole, ' ')) {
    if (word.empty()) continue;
    WEFT_CHECK(names_.contains(word));
    whole_.push_back(factor(word));
  }
}

Notation::Dims Notation::read(std::string_view words) {
  Dims dims;
  for (const std::string_view word : split(words, ' ')) {
    if (word.empty()) continue;
    if (word == "...") {
      WEFT_CHECK(dims.factors.empty());
      dims.leading = true;
    } else {
      dims.factors.push_back(factor(word));
    }
  }
  return dims;
}

int Notation::factor(std::string_view word) {
  return names_.emplace(word, static_cast<int>(names_.size())).first->second;
}

Factors Notation::factors(std::string_view name, Rule::Inputs inputs) const {
  WEFT_CHECK(inputs.size() == inputs_.size());
  Factors factors;
  int most_leading = 0;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Dims& dims = inputs_[i];
    const int leading = static_cast<int>(inputs[i]->shape.size()) - static_cast<int>(dims.factors.size());
    if (leading < 0 || (leading > 0 && !dims.leading)) {
      throw Error(
          fmt::format("{}: input {} is {}, which does not match \"{}\"", name, i + 1, inputs[i]->text(), text_));
    }
    std::vector<int> numbers;
    for (int dim = leading; dim > 0; --dim) numbers.push_back(kLeading + dim);
    numbers.insert(numbers.end(), dims.factors.begin(), dims.factors.end());
    factors.inputs.push_back(std::move(numbers));
    most_leading = std::max(most_leading, leading);
  }
  if (output_.leading) {
    for (int dim = most_leading; dim > 0; --dim) factors.output.push_back(kLeading + dim);
  }
  factors.output.insert(factors.output.end(), output_.factors.begin(), output_.factors.end());
  factors.whole = whole_;
  return factors;
}

}  // namespace weft::tensor
