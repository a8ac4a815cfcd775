// Judges the rule of an operator by brute force, for tests.
#pragma once

#include <cstdint>
#include <functional>
#include <ostream>
#include <set>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "mesh/device_mesh.h"
#include "tensor/dtensor.h"

namespace weft::tensor {

enum class InputKind : uint8_t {
  kNumber,    // fp64 between -1 and 1
  kPositive,  // fp64 between 0.5 and 1.5
  kConstant,  // a number without a gradient
  kPlace,     // int64 from 0 to below `below`
  kBit,       // uint8: 0 or 1
};
struct CaseInput {
  std::vector<int64_t> shape;
  InputKind kind = InputKind::kNumber;
  int64_t below = 0;
};
struct OperatorCase {
  std::string name;
  std::vector<CaseInput> inputs;
  std::function<DTensor(std::vector<DTensor>&, const mesh::DeviceMesh&)> sharded;
  // The same on plain tensors, of any part of the inputs.
  std::function<at::Tensor(std::vector<at::Tensor>&)> plain;
  // "shard(1), partial": placements on one axis that are refused although they would be right.
  std::set<std::string> refused = {};
};

inline void PrintTo(const OperatorCase& operator_case, std::ostream* out) { *out << operator_case.name; }

// Runs the operator for every rank of the mesh and every placement of its inputs, and compares value and gradients with
// the whole operator. A line for each wrong rule: an accepted combination with a wrong value, gradient or shape; and,
// on a mesh of one axis, for each missing one: a refused combination for which the parts' outputs are the whole's in
// some placement, gradients too. Invariant inputs beside others are refused by design. "" if all is well.
std::string verify(const OperatorCase& operator_case, const mesh::Mesh& mesh);

}  // namespace weft::tensor
