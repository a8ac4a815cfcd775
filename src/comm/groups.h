// The groups of a rank on a mesh: one for each set of axes that somebody communicates over.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "comm/communicator.h"
#include "mesh/device_mesh.h"

namespace weft::comm {

class Groups {
 public:
  // Makes the group of each of these sets of axes in a canonical order, so that the order in which they are named does
  // not matter; every rank names the same sets. Throws InputError where the degrees do not make world.size() ranks.
  // `world` must outlive the groups.
  Groups(World& world, const mesh::Mesh& mesh, std::vector<mesh::AxisSet> sets);
  // With the group of every set of axes: what eager code, which chooses its communication as it goes, needs.
  Groups(World& world, const mesh::Mesh& mesh);

  [[nodiscard]] const mesh::DeviceMesh& device_mesh() const { return device_mesh_; }
  // The group through this rank. Throws Error that names it where it was not asked for.
  [[nodiscard]] Communicator& group(mesh::AxisSet axes) const;

 private:
  mesh::DeviceMesh device_mesh_;
  std::map<mesh::AxisSet, std::unique_ptr<Communicator>> groups_;
};

}  // namespace weft::comm
