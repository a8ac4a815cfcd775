// The parameters of a model on one rank: fp32 master values in one flat buffer an optimizer group, a copy in the compute
// type where that differs, and gradient buffers of the same layout.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "model/description.h"

namespace weft::nn {

// Whether a weight gradient is the first written to its buffer in this step (overwrite) or must be added. A buffer is never
// cleared: the first writer of a step overwrites it.
struct GradientTarget {
  at::Tensor buffer;  // fp32, the parameter's shape
  bool accumulate;    // false: the contents are stale and must be overwritten whole
};

class ParameterStore {
 public:
  // Lays the parameters out: those with and without weight decay in two flat buffers, path order inside each, so that an
  // optimizer step is one call a group. `frozen[i]` parameters have values but no gradient and belong to no group.
  // compute_type is float or bfloat16.
  ParameterStore(const model::ModelDescription& model, std::vector<bool> frozen, at::ScalarType compute_type,
                 at::Device device);

  // Fills master values from the descriptions' initializers. Element i of a parameter depends only on the seed, its path and i.
  void initialize(uint64_t seed);

  [[nodiscard]] size_t size() const { return entries_.size(); }
  [[nodiscard]] const std::string& path(int index) const;
  [[nodiscard]] const at::Tensor& master(int index) const;   // fp32
  [[nodiscard]] const at::Tensor& value(int index) const;    // compute type; the master itself in fp32
  [[nodiscard]] bool frozen(int index) const;

  // Claims the gradient buffer for a write in this step. Undefined buffer if frozen.
  GradientTarget gradient_target(int index);
  // The gradient of this step, zeros where nothing was written. Undefined if frozen.
  at::Tensor gradient(int index);
  void begin_step();             // forgets which gradients were written
  void refresh_compute_copies(); // after master values changed

  // Flat views for the optimizer.
  struct Group {
    bool weight_decay;
    at::Tensor master, gradient;  // fp32, one dimension; unwritten gradients are zeroed by finish_gradients
    std::vector<int> parameters;
  };
  void finish_gradients();
  [[nodiscard]] const std::vector<Group>& groups() const { return groups_; }

  // xxh64 over the full fp32 master values in path order, tied ones once.
  [[nodiscard]] uint64_t parameter_hash() const;

 private:
  struct Entry {
    std::string path;
    model::Initializer initializer;
    at::Tensor master, value, gradient;
    bool frozen = false;
    bool written = false;
  };
  std::vector<Entry> entries_;
  std::vector<Group> groups_;
};

}  // namespace weft::nn
