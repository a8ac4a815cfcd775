// A mesh as one of its ranks sees it: where the rank lies, and who shares a set of axes with it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mesh/spec.h"

namespace weft::mesh {

// Some axes of a mesh: bit a stands for axis a. A mesh has at most kMostAxes axes.
using AxisSet = uint32_t;
inline constexpr int kMostAxes = 16;
[[nodiscard]] constexpr AxisSet axis_bit(size_t axis) { return AxisSet{1} << axis; }
[[nodiscard]] constexpr bool contains(AxisSet axes, size_t axis) { return (axes >> axis & 1U) != 0; }

// "dp+fsdp"; "none" for no axis.
[[nodiscard]] std::string text(const Mesh& mesh, AxisSet axes);

// Throws InputError "the degrees dp 2 x tp 3 make 6 ranks, but there are 4" unless the mesh has this many ranks.
void check_ranks(const Mesh& mesh, int64_t ranks);

// Ranks are numbered row-major: the mesh's first axis is the outermost.
class DeviceMesh {
 public:
  // Throws Error for a rank that the mesh does not have, and for a mesh with an axis twice or of size 0.
  DeviceMesh(Mesh mesh, int rank);

  [[nodiscard]] const Mesh& mesh() const { return mesh_; }
  [[nodiscard]] int rank() const { return rank_; }
  // One a axis.
  [[nodiscard]] const std::vector<int>& coordinates() const { return coordinates_; }
  // The axes with these names. Throws Error that names an axis the mesh lacks.
  [[nodiscard]] AxisSet axes(std::span<const std::string_view> names) const;
  // The ranks that differ from this one in these axes only, ascending; this one among them.
  [[nodiscard]] std::vector<int> members(AxisSet axes) const;
  // This rank's place among members(axes).
  [[nodiscard]] int place(AxisSet axes) const;

 private:
  Mesh mesh_;
  int rank_;
  std::vector<int> coordinates_;
};

// Where a rank lies on each axis.
[[nodiscard]] std::vector<int> coordinates_of(const Mesh& mesh, int rank);
// How many ranks a set of axes joins.
[[nodiscard]] int64_t size_of(const Mesh& mesh, AxisSet axes);

}  // namespace weft::mesh
