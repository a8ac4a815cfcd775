#include "tensor/plan.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include <fmt/format.h>

#include "base/error.h"
#include "mesh/shard.h"

namespace weft::tensor {
namespace {

using mesh::Placement;
using mesh::PlacementKind;

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

std::optional<int64_t> number(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

std::optional<Placement> placement(std::string_view text) {
  for (const PlacementKind kind : {PlacementKind::kReplicate, PlacementKind::kInvariant, PlacementKind::kPartial}) {
    if (text == mesh::text(Placement{kind})) return Placement{kind};
  }
  if (!text.starts_with("shard(") || !text.ends_with(")")) return std::nullopt;
  const std::optional<int64_t> dim = number(text.substr(6, text.size() - 7));
  if (!dim || *dim < 0 || *dim > 7) return std::nullopt;
  return Placement{PlacementKind::kShard, static_cast<int8_t>(*dim)};
}

}  // namespace

bool matches(std::string_view pattern, std::string_view path) {
  const size_t star = pattern.find('*');
  if (star == std::string_view::npos) return pattern == path;
  if (!path.starts_with(pattern.substr(0, star))) return false;
  path.remove_prefix(star);
  pattern.remove_prefix(star + 1);
  for (size_t skipped = 0; skipped <= path.size(); ++skipped) {
    if (matches(pattern, path.substr(skipped))) return true;
  }
  return false;
}

Plan::Plan(const std::vector<PlanLine>& lines, const comm::Groups& groups) : groups_(groups) {
  for (const PlanLine& line : lines) lines_.push_back({line, parsed(line)});
}

std::map<size_t, Plan::Choice> Plan::parsed(const PlanLine& line) const {
  std::map<size_t, Choice> choices;
  std::string_view rest = line.placements;
  const auto fail = [&](std::string_view what) {
    throw InputError(fmt::format("parallel plan, line \"{}\": \"{}\": {}", line.paths, line.placements, what));
  };
  while (!rest.empty()) {
    const size_t end = std::min(rest.find(','), rest.size());
    const std::string_view one = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    const size_t colon = one.find(':');
    if (colon == std::string_view::npos) fail("write AXIS: PLACEMENT, ...");
    const std::string_view axis = trimmed(one.substr(0, colon));
    std::string_view value = trimmed(one.substr(colon + 1));
    Choice choice;
    if (const size_t in = value.find(" in "); in != std::string_view::npos) {
      const std::optional<int64_t> units = number(trimmed(value.substr(in + 4)));
      if (!units || *units < 1) fail("the units after \"in\" are a number above 0");
      choice.units = *units;
      value = trimmed(value.substr(0, in));
    }
    const std::optional<Placement> found = placement(value);
    if (!found) fail("a placement is shard(DIM), replicate, invariant or partial");
    choice.placement = *found;
    const std::vector<mesh::Axis>& axes = groups_.device_mesh().mesh().axes;
    const auto known = std::ranges::find_if(axes, [&](const mesh::Axis& other) { return other.name == axis; });
    if (known == axes.end()) fail(fmt::format("the mesh has no axis {}", axis));
    choices[static_cast<size_t>(known - axes.begin())] = choice;
  }
  return choices;
}

std::map<size_t, Plan::Choice> Plan::choices(std::string_view path, Moment moment) const {
  std::map<size_t, Choice> choices;
  for (const Line& line : lines_) {
    if (line.text.moment != moment || !matches(line.text.paths, path)) continue;
    line.matched = true;
    for (const auto& [axis, choice] : line.choices) choices[axis] = choice;
  }
  return choices;
}

const mesh::Spec* Plan::kept(std::string_view path, std::vector<int64_t> shape, mesh::ElementType type) const {
  mesh::Spec spec;
  spec.mesh = groups_.device_mesh().mesh();
  spec.shape = std::move(shape);
  spec.element_type = type;
  spec.placements.assign(spec.mesh.axes.size(), Placement{PlacementKind::kInvariant});
  spec.units.assign(spec.shape.size(), 0);
  const std::map<size_t, Choice> used = choices(path, Moment::kUsed);
  std::vector<int8_t> gathered;
  for (const auto& [axis, choice] : choices(path, Moment::kKept)) {
    spec.placements[axis] = choice.placement;
    if (choice.placement.kind != PlacementKind::kShard) continue;
    const auto dim = static_cast<size_t>(choice.placement.dim);
    if (choice.units > 0 && dim < spec.units.size()) spec.units[dim] = choice.units;
    const auto in_use = used.find(axis);
    const bool stays = in_use == used.end() || in_use->second.placement == choice.placement;
    (stays ? spec.shard_order : gathered).push_back(static_cast<int8_t>(axis));
  }
  spec.shard_order.insert(spec.shard_order.end(), gathered.begin(), gathered.end());
  return mesh::intern(std::move(spec));
}

DTensor Plan::use(std::string_view path, const DTensor& parameter) const {
  return moved(path, parameter, Moment::kUsed);
}

DTensor Plan::place(std::string_view path, const DTensor& value) const { return moved(path, value, Moment::kValue); }

DTensor Plan::moved(std::string_view path, const DTensor& tensor, Moment moment) const {
  const std::map<size_t, Choice> choices = this->choices(path, moment);
  if (choices.empty()) return tensor;
  mesh::Spec spec = *tensor.spec;
  spec.units.resize(spec.shape.size());
  for (const auto& [axis, choice] : choices) {
    if (spec.placements[axis] == choice.placement) continue;
    spec.placements[axis] = choice.placement;
    std::erase(spec.shard_order, static_cast<int8_t>(axis));
    if (choice.placement.kind != PlacementKind::kShard) continue;
    spec.shard_order.push_back(static_cast<int8_t>(axis));
    const auto dim = static_cast<size_t>(choice.placement.dim);
    if (choice.units > 0 && dim < spec.units.size()) spec.units[dim] = choice.units;
  }
  return redistribute(tensor, mesh::intern(std::move(spec)), groups_, path);
}

std::string Plan::unmatched() const {
  std::string lines;
  for (const Line& line : lines_) {
    if (!line.matched) lines += fmt::format("\"{}\": \"{}\" matched nothing\n", line.text.paths, line.text.placements);
  }
  return lines;
}

}  // namespace weft::tensor
