// The judgement of a rule (rule.h) on inputs whose factors are known.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/rule.h"

namespace weft::tensor {

class PlacementRule {
 public:
  // Refers to its arguments. Throws Error where sizes of a factor, or meshes, differ.
  PlacementRule(std::string_view name, Rule::Inputs inputs, const Factors& factors, const RuleOptions& options);
  // Throws Error that names the axis, both specs and the redistribution that is missing.
  [[nodiscard]] const mesh::Spec* output() const;

 private:
  // How the axes cut a factor: as a dim's units, and the axes outermost first.
  struct Cut {
    int64_t units = 0;
    std::vector<int8_t> order;
    friend bool operator==(const Cut&, const Cut&) = default;
  };
  [[nodiscard]] bool holds(size_t input, int factor) const;
  [[nodiscard]] bool linear(size_t input) const { return (options_.linear_inputs >> input & 1U) != 0; }
  [[nodiscard]] mesh::Placement placement(size_t input, size_t axis) const { return inputs_[input]->placements[axis]; }
  [[nodiscard]] int factor_cut(size_t input, size_t axis) const;
  [[nodiscard]] mesh::Placement on_axis(size_t axis) const;
  [[nodiscard]] mesh::Placement partial_on_axis(size_t axis, size_t partial) const;
  [[nodiscard]] mesh::Placement cut_on_axis(size_t axis, size_t cut) const;
  [[nodiscard]] Cut cut_of(size_t input, int factor) const;
  // The cut that all holders of a factor have.
  [[nodiscard]] Cut shared_cut(int factor) const;
  [[noreturn]] void missing(size_t axis, size_t input, size_t other, mesh::Placement needed) const;

  std::string_view name_;
  Rule::Inputs inputs_;
  const Factors& factors_;
  const RuleOptions& options_;
  std::map<int, int64_t> sizes_;
};

}  // namespace weft::tensor
