#include "tensor/placement_rule.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/check.h"
#include "base/error.h"

namespace weft::tensor {
namespace {

using mesh::Placement;
using mesh::PlacementKind;

constexpr Placement kReplicate{PlacementKind::kReplicate};
constexpr Placement kPartial{PlacementKind::kPartial};
constexpr Placement kInvariant{PlacementKind::kInvariant};

}  // namespace

PlacementRule::PlacementRule(std::string_view name, Rule::Inputs inputs, const Factors& factors,
                             const RuleOptions& options)
    : name_(name), inputs_(inputs), factors_(factors), options_(options) {
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (inputs_[i]->mesh != inputs_[0]->mesh) {
      throw Error(fmt::format("{}: input {} is {} and input 1 is {}, on another mesh", name_, i + 1, inputs_[i]->text(),
                              inputs_[0]->text()));
    }
    WEFT_CHECK(factors_.inputs[i].size() == inputs_[i]->shape.size());
    for (size_t dim = 0; dim < inputs_[i]->shape.size(); ++dim) {
      const int64_t size = inputs_[i]->shape[dim];
      int64_t& known = sizes_.try_emplace(factors_.inputs[i][dim], size).first->second;
      if (known == 1) known = size;
      if (size != known && size != 1) {
        throw Error(fmt::format("{}: dim {} of input {}, {}, has another size than {} in the inputs before it", name_,
                                dim, i + 1, inputs_[i]->text(), known));
      }
    }
  }
}

// A dim of size 1 beside larger ones is broadcast.
bool PlacementRule::holds(size_t input, int factor) const {
  const std::vector<int>& dims = factors_.inputs[input];
  const auto found = std::ranges::find(dims, factor);
  if (found == dims.end()) return false;
  return inputs_[input]->shape[static_cast<size_t>(found - dims.begin())] == sizes_.at(factor);
}

int PlacementRule::factor_cut(size_t input, size_t axis) const {
  return factors_.inputs[input][static_cast<size_t>(placement(input, axis).dim)];
}

void PlacementRule::missing(size_t axis, size_t input, size_t other, Placement needed) const {
  const std::string& axis_name = inputs_[0]->mesh.axes[axis].name;
  const std::string beside =
      other == input ? "" : fmt::format(" beside input {}, {}", other + 1, inputs_[other]->text());
  throw Error(fmt::format(
      "{}: on axis {} there is no rule for input {}, {}{}: redistribute input {} to {{{}: {}}} first", name_, axis_name,
      input + 1, inputs_[input]->text(), beside, input + 1, axis_name, mesh::text(needed)));
}

const mesh::Spec* PlacementRule::output() const {
  mesh::Spec spec;
  spec.mesh = inputs_[0]->mesh;
  spec.element_type = inputs_[static_cast<size_t>(options_.type_of)]->element_type;
  for (const int factor : factors_.output) spec.shape.push_back(factor == Factors::kOne ? 1 : sizes_.at(factor));
  if (!factors_.output_sizes.empty()) spec.shape = factors_.output_sizes;
  for (size_t axis = 0; axis < spec.mesh.axes.size(); ++axis) spec.placements.push_back(on_axis(axis));
  spec.units.assign(spec.shape.size(), 0);
  for (const auto& [factor, size] : sizes_) {
    const Cut cut = shared_cut(factor);
    const auto dim = std::ranges::find(factors_.output, factor);
    if (cut.order.empty() || dim == factors_.output.end()) continue;
    spec.units[static_cast<size_t>(dim - factors_.output.begin())] = cut.units;
    spec.shard_order.insert(spec.shard_order.end(), cut.order.begin(), cut.order.end());
  }
  return mesh::intern(std::move(spec));
}

Placement PlacementRule::on_axis(size_t axis) const {
  const auto first_of = [&](PlacementKind kind) {
    size_t input = 0;
    while (input < inputs_.size() && placement(input, axis).kind != kind) ++input;
    return input;
  };
  const size_t ragged = first_of(PlacementKind::kRagged);
  if (ragged < inputs_.size()) missing(axis, ragged, ragged, kReplicate);
  const size_t invariant = first_of(PlacementKind::kInvariant);
  if (invariant < inputs_.size()) {
    for (size_t other = 0; other < inputs_.size(); ++other) {
      if (placement(other, axis) != kInvariant) missing(axis, invariant, other, kReplicate);
    }
    return kInvariant;
  }
  const size_t partial = first_of(PlacementKind::kPartial);
  if (partial < inputs_.size()) return partial_on_axis(axis, partial);
  const size_t cut = first_of(PlacementKind::kShard);
  return cut < inputs_.size() ? cut_on_axis(axis, cut) : kReplicate;
}

Placement PlacementRule::partial_on_axis(size_t axis, size_t partial) const {
  if (options_.linear == Linear::kNo || !linear(partial)) missing(axis, partial, partial, kReplicate);
  for (size_t other = 0; other < inputs_.size(); ++other) {
    if (other == partial) continue;
    const bool together = options_.linear == Linear::kTogether && linear(other);
    if (placement(other, axis) != (together ? kPartial : kReplicate)) missing(axis, partial, other, kReplicate);
  }
  return kPartial;
}

Placement PlacementRule::cut_on_axis(size_t axis, size_t cut) const {
  const int factor = factor_cut(cut, axis);
  if (std::ranges::find(factors_.whole, factor) != factors_.whole.end()) missing(axis, cut, cut, kReplicate);
  if (!holds(cut, factor)) missing(axis, cut, cut, kReplicate);  // a dim of size 1 that is broadcast
  for (size_t other = 0; other < inputs_.size(); ++other) {
    Placement needed = kReplicate;
    if (holds(other, factor)) {
      const std::vector<int>& dims = factors_.inputs[other];
      needed = {PlacementKind::kShard, static_cast<int8_t>(std::ranges::find(dims, factor) - dims.begin())};
    }
    if (placement(other, axis) != needed) missing(axis, other, cut, needed);
  }
  const auto dim = std::ranges::find(factors_.output, factor);
  if (dim == factors_.output.end()) return kPartial;
  return {PlacementKind::kShard, static_cast<int8_t>(dim - factors_.output.begin())};
}

PlacementRule::Cut PlacementRule::cut_of(size_t input, int factor) const {
  const mesh::Spec& spec = *inputs_[input];
  const std::vector<int>& dims = factors_.inputs[input];
  const auto dim = std::ranges::find(dims, factor) - dims.begin();
  Cut cut;
  cut.units = spec.units.empty() ? 0 : spec.units[static_cast<size_t>(dim)];
  for (const int8_t axis : spec.shard_order) {
    if (spec.placements[static_cast<size_t>(axis)].dim == dim) cut.order.push_back(axis);
  }
  return cut;
}

PlacementRule::Cut PlacementRule::shared_cut(int factor) const {
  size_t first = inputs_.size();
  Cut shared;
  for (size_t input = 0; input < inputs_.size(); ++input) {
    if (!holds(input, factor)) continue;
    const Cut cut = cut_of(input, factor);
    if (first == inputs_.size()) {
      first = input;
      shared = cut;
    } else if (cut != shared) {
      throw Error(
          fmt::format("{}: input {}, {}, is cut in other units or another order of axes than input {}, {}: "
                      "redistribute one to the other's",
                      name_, input + 1, inputs_[input]->text(), first + 1, inputs_[first]->text()));
    }
  }
  return shared;
}

}  // namespace weft::tensor
