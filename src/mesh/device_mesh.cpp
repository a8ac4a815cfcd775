#include "mesh/device_mesh.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"

namespace weft::mesh {
namespace {

std::string degrees(const Mesh& mesh) {
  std::vector<std::string> words;
  for (const Axis& axis : mesh.axes) words.push_back(fmt::format("{} {}", axis.name, axis.size));
  return fmt::format("{}", fmt::join(words, " x "));
}

}  // namespace

std::string text(const Mesh& mesh, AxisSet axes) {
  std::vector<std::string> names;
  for (size_t axis = 0; axis < mesh.axes.size(); ++axis) {
    if (contains(axes, axis)) names.push_back(mesh.axes[axis].name);
  }
  return names.empty() ? "none" : fmt::format("{}", fmt::join(names, "+"));
}

void check_ranks(const Mesh& mesh, int64_t ranks) {
  if (mesh.ranks() == ranks) return;
  throw InputError(fmt::format("the degrees {} make {} ranks, but there are {}", degrees(mesh), mesh.ranks(), ranks));
}

std::vector<int> coordinates_of(const Mesh& mesh, int rank) {
  std::vector<int> coordinates(mesh.axes.size());
  for (size_t axis = mesh.axes.size(); axis-- > 0;) {
    coordinates[axis] = rank % mesh.axes[axis].size;
    rank /= mesh.axes[axis].size;
  }
  return coordinates;
}

int64_t size_of(const Mesh& mesh, AxisSet axes) {
  int64_t size = 1;
  for (size_t axis = 0; axis < mesh.axes.size(); ++axis) {
    if (contains(axes, axis)) size *= mesh.axes[axis].size;
  }
  return size;
}

DeviceMesh::DeviceMesh(Mesh mesh, int rank) : mesh_(std::move(mesh)), rank_(rank) {
  if (mesh_.axes.size() > kMostAxes)
    throw Error(fmt::format("a mesh of {} axes: at most {}", mesh_.axes.size(), kMostAxes));
  for (const Axis& axis : mesh_.axes) {
    if (axis.size < 1) throw Error(fmt::format("axis {} of a mesh has size {}", axis.name, axis.size));
    const auto same_name = [&](const Axis& other) { return other.name == axis.name; };
    if (std::ranges::count_if(mesh_.axes, same_name) > 1)
      throw Error(fmt::format("a mesh has axis {} twice", axis.name));
  }
  if (rank < 0 || rank >= mesh_.ranks()) {
    throw Error(fmt::format("rank {} of a mesh {} of {} ranks", rank, degrees(mesh_), mesh_.ranks()));
  }
  coordinates_ = coordinates_of(mesh_, rank);
}

AxisSet DeviceMesh::axes(std::span<const std::string_view> names) const {
  AxisSet axes = 0;
  for (const std::string_view name : names) {
    const auto found = std::ranges::find_if(mesh_.axes, [&](const Axis& axis) { return axis.name == name; });
    if (found == mesh_.axes.end()) {
      throw Error(fmt::format("the mesh {} has no axis {}", degrees(mesh_), name));
    }
    axes |= axis_bit(static_cast<size_t>(found - mesh_.axes.begin()));
  }
  return axes;
}

std::vector<int> DeviceMesh::members(AxisSet axes) const {
  std::vector<int> members;
  for (int other = 0; other < mesh_.ranks(); ++other) {
    const std::vector<int> place = coordinates_of(mesh_, other);
    bool member = true;
    for (size_t axis = 0; axis < place.size(); ++axis) {
      if (!contains(axes, axis) && place[axis] != coordinates_[axis]) member = false;
    }
    if (member) members.push_back(other);
  }
  return members;
}

int DeviceMesh::place(AxisSet axes) const {
  int place = 0;
  for (size_t axis = 0; axis < coordinates_.size(); ++axis) {
    if (contains(axes, axis)) place = place * mesh_.axes[axis].size + coordinates_[axis];
  }
  return place;
}

}  // namespace weft::mesh
