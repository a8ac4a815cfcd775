#include "mesh/spec.h"

#include <algorithm>
#include <functional>
#include <mutex>
#include <set>
#include <tuple>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/check.h"
#include "base/error.h"
#include "mesh/shard.h"

namespace weft::mesh {
namespace {

int64_t elements(const std::vector<int64_t>& shape) {
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  return count;
}

[[noreturn]] void fail(const Spec& spec, const std::string& what) {
  throw Error(fmt::format("sharded tensor {}: {}", spec.text(), what));
}

void check_placements(const Spec& spec) {
  if (spec.placements.size() != spec.mesh.axes.size()) {
    throw Error(fmt::format("sharded tensor of shape [{}]: {} placements for a mesh of {} axes",
                            fmt::join(spec.shape, ", "), spec.placements.size(), spec.mesh.axes.size()));
  }
  for (size_t axis = 0; axis < spec.mesh.axes.size(); ++axis) {
    const Axis& mesh_axis = spec.mesh.axes[axis];
    if (mesh_axis.size < 1) fail(spec, fmt::format("axis {} has size {}", mesh_axis.name, mesh_axis.size));
    const auto same_name = [&](const Axis& other) { return other.name == mesh_axis.name; };
    if (std::ranges::count_if(spec.mesh.axes, same_name) > 1) {
      fail(spec, fmt::format("the mesh has axis {} twice", mesh_axis.name));
    }
    const Placement placement = spec.placements[axis];
    const bool shard = placement.kind == PlacementKind::kShard;
    if (shard && (placement.dim < 0 || placement.dim >= static_cast<int64_t>(spec.shape.size()))) {
      fail(spec, fmt::format("axis {} cuts dim {} of a tensor with {} dims", mesh_axis.name, placement.dim,
                             spec.shape.size()));
    }
    if (!shard && placement.dim != -1) {
      fail(spec, fmt::format("axis {} is {} and names dim {}", mesh_axis.name, text(placement), placement.dim));
    }
  }
}

void check_ragged(const Spec& spec) {
  const auto is_ragged = [](Placement placement) { return placement.kind == PlacementKind::kRagged; };
  const auto ragged = std::ranges::find_if(spec.placements, is_ragged);
  if (ragged == spec.placements.end()) {
    if (!spec.ragged_ends.empty()) fail(spec, "ragged ranges without a ragged axis");
    return;
  }
  if (std::ranges::count_if(spec.placements, is_ragged) > 1) fail(spec, "more than one ragged axis");
  const auto is_shard = [](Placement placement) { return placement.kind == PlacementKind::kShard; };
  if (std::ranges::any_of(spec.placements, is_shard)) fail(spec, "a ragged axis beside one that cuts a dim");
  const Axis& axis = spec.mesh.axes[static_cast<size_t>(ragged - spec.placements.begin())];
  if (static_cast<int64_t>(spec.ragged_ends.size()) != axis.size) {
    fail(spec, fmt::format("{} ragged ranges for axis {} of size {}", spec.ragged_ends.size(), axis.name, axis.size));
  }
  if (spec.ragged_ends.front() < 0 || !std::ranges::is_sorted(spec.ragged_ends) ||
      spec.ragged_ends.back() != elements(spec.shape)) {
    fail(spec, fmt::format("ragged ranges ending at [{}] do not fill {} elements", fmt::join(spec.ragged_ends, ", "),
                           elements(spec.shape)));
  }
}

void check_units(Spec& spec) {
  if (spec.units.empty()) return;
  if (spec.units.size() != spec.shape.size()) {
    fail(spec, fmt::format("units of {} dims for a tensor with {} dims", spec.units.size(), spec.shape.size()));
  }
  for (size_t dim = 0; dim < spec.units.size(); ++dim) {
    if (spec.units[dim] < 0) fail(spec, fmt::format("{} units in dim {}", spec.units[dim], dim));
  }
}

// Axes that cut different dims commute, so the canonical order is by dim.
void order_shards(Spec& spec) {
  std::vector<int8_t> sharding;
  for (size_t axis = 0; axis < spec.placements.size(); ++axis) {
    if (spec.placements[axis].kind == PlacementKind::kShard) sharding.push_back(static_cast<int8_t>(axis));
  }
  if (spec.shard_order.empty()) spec.shard_order = sharding;
  std::vector<int8_t> sorted = spec.shard_order;
  std::ranges::sort(sorted);
  if (sorted != sharding) {
    fail(spec, fmt::format("the order of shards [{}] is not one of the sharding axes [{}]",
                           fmt::join(spec.shard_order, ", "), fmt::join(sharding, ", ")));
  }
  std::ranges::stable_sort(spec.shard_order,
                           [&](int8_t a, int8_t b) { return spec.placements[a].dim < spec.placements[b].dim; });
}

// Whether all ranks hold of a dim what they would hold if elements were its units.
bool same_as_elements(const Spec& spec, size_t dim) {
  Spec elements = spec;
  elements.units[dim] = 0;
  std::vector<int> place(spec.mesh.axes.size(), 0);
  for (size_t axis = 0; axis < place.size();) {
    const auto number = static_cast<int64_t>(dim);
    if (shard_range(spec, place, number) != shard_range(elements, place, number)) return false;
    // The next coordinates of the axes that cut the dim.
    for (axis = 0; axis < place.size(); ++axis) {
      if (spec.placements[axis] != Placement{PlacementKind::kShard, static_cast<int8_t>(dim)}) continue;
      if (++place[axis] < spec.mesh.axes[axis].size) break;
      place[axis] = 0;
    }
  }
  return true;
}

// Units that make no difference are no part of the spec, so that specs which say the same are one object.
void drop_units(Spec& spec) {
  for (size_t dim = 0; dim < spec.units.size(); ++dim) {
    if (spec.units[dim] != 0 && same_as_elements(spec, dim)) spec.units[dim] = 0;
  }
  if (std::ranges::all_of(spec.units, [](int64_t units) { return units == 0; })) spec.units.clear();
}

struct SpecLess {
  static auto key(const Spec& spec) {
    std::vector<std::tuple<std::string, int32_t, PlacementKind, int8_t>> axes;
    for (size_t axis = 0; axis < spec.mesh.axes.size(); ++axis) {
      axes.emplace_back(spec.mesh.axes[axis].name, spec.mesh.axes[axis].size, spec.placements[axis].kind,
                        spec.placements[axis].dim);
    }
    return std::tuple(std::move(axes), spec.shard_order, spec.ragged_ends, spec.shape, spec.units, spec.element_type);
  }
  bool operator()(const Spec& a, const Spec& b) const { return key(a) < key(b); }
};

}  // namespace

Placement gradient_placement(Placement forward) {
  switch (forward.kind) {
    case PlacementKind::kReplicate:
      return {PlacementKind::kPartial, -1};
    case PlacementKind::kPartial:
      return {PlacementKind::kReplicate, -1};
    case PlacementKind::kShard:
    case PlacementKind::kInvariant:
    case PlacementKind::kRagged:
      return forward;
  }
  WEFT_CHECK(false);
}

std::string_view text(ElementType type) {
  switch (type) {
    case ElementType::kFloat32:
      return "f32";
    case ElementType::kBFloat16:
      return "bf16";
    case ElementType::kFloat16:
      return "f16";
    case ElementType::kFloat64:
      return "f64";
    case ElementType::kInt64:
      return "i64";
    case ElementType::kInt32:
      return "i32";
    case ElementType::kUInt8:
      return "u8";
  }
  WEFT_CHECK(false);
}

std::string text(Placement placement) {
  switch (placement.kind) {
    case PlacementKind::kShard:
      return fmt::format("shard({})", placement.dim);
    case PlacementKind::kReplicate:
      return "replicate";
    case PlacementKind::kInvariant:
      return "invariant";
    case PlacementKind::kPartial:
      return "partial";
    case PlacementKind::kRagged:
      return "ragged";
  }
  WEFT_CHECK(false);
}

int64_t Mesh::ranks() const {
  int64_t count = 1;
  for (const Axis& axis : axes) count *= axis.size;
  return count;
}

int64_t element_size(ElementType type) {
  switch (type) {
    case ElementType::kFloat64:
    case ElementType::kInt64:
      return 8;
    case ElementType::kFloat32:
    case ElementType::kInt32:
      return 4;
    case ElementType::kBFloat16:
    case ElementType::kFloat16:
      return 2;
    case ElementType::kUInt8:
      return 1;
  }
  WEFT_CHECK(false);
}

std::string Spec::text() const {
  std::vector<std::string> axes;
  for (size_t axis = 0; axis < placements.size() && axis < mesh.axes.size(); ++axis) {
    axes.push_back(fmt::format("{}: {}", mesh.axes[axis].name, mesh::text(placements[axis])));
  }
  std::vector<std::string> dims;
  for (size_t dim = 0; dim < shape.size(); ++dim) {
    const int64_t parts = dim < units.size() ? units[dim] : 0;
    dims.push_back(parts == 0 ? fmt::format("{}", shape[dim]) : fmt::format("{} in {} units", shape[dim], parts));
  }
  return fmt::format("{}[{}] {{{}}}", mesh::text(element_type), fmt::join(dims, ", "), fmt::join(axes, ", "));
}

const Spec* intern(Spec spec) {
  for (const int64_t size : spec.shape) {
    if (size < 0) fail(spec, "a negative size");
  }
  check_placements(spec);
  check_ragged(spec);
  check_units(spec);
  order_shards(spec);
  drop_units(spec);
  // Nodes of a set never move, so an element's address is its identity.
  static std::mutex mutex;
  static std::set<Spec, SpecLess> specs;
  const std::lock_guard lock(mutex);
  return &*specs.insert(std::move(spec)).first;
}

}  // namespace weft::mesh
