#include "comm/groups.h"

#include <algorithm>

#include <fmt/format.h>

namespace weft::comm {
namespace {

mesh::DeviceMesh device_mesh_of(const World& world, const mesh::Mesh& mesh) {
  mesh::check_ranks(mesh, world.size());
  return {mesh, world.rank()};
}

std::vector<mesh::AxisSet> every_set(const mesh::Mesh& mesh) {
  std::vector<mesh::AxisSet> sets;
  for (mesh::AxisSet axes = 1; axes < mesh::axis_bit(mesh.axes.size()); ++axes) sets.push_back(axes);
  return sets;
}

}  // namespace

Groups::Groups(World& world, const mesh::Mesh& mesh, std::vector<mesh::AxisSet> sets)
    : device_mesh_(device_mesh_of(world, mesh)) {
  std::ranges::sort(sets);
  const auto repeated = std::ranges::unique(sets);
  sets.erase(repeated.begin(), repeated.end());
  // A rank is in one group of each set, and the groups of one set are disjoint: the same order of sets everywhere is
  // the same order of groups for all members.
  for (const mesh::AxisSet axes : sets) {
    groups_.emplace(axes, world.make_group(device_mesh_.members(axes), mesh::text(mesh, axes)));
  }
}

Groups::Groups(World& world, const mesh::Mesh& mesh) : Groups(world, mesh, every_set(mesh)) {}

Communicator& Groups::group(mesh::AxisSet axes) const {
  const auto found = groups_.find(axes);
  if (found == groups_.end()) {
    throw Error(fmt::format("rank {}: no group was made for the axes {}", device_mesh_.rank(),
                            mesh::text(device_mesh_.mesh(), axes)));
  }
  return *found->second;
}

}  // namespace weft::comm
