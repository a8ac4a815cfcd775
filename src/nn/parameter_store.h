// The parameters of a model on one rank: fp32 master values in one flat buffer an optimizer group, a copy in the
// compute type where that differs, and gradient buffers of the same layout.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "model/description.h"

namespace weft::nn {

// Whether a weight gradient is the first written to its buffer in this step (overwrite) or must be added. A buffer is
// never cleared: the first writer of a step overwrites it.
struct GradientTarget {
  at::Tensor buffer;  // fp32, the parameter's shape
  bool accumulate;    // false: the contents are stale and must be overwritten whole
};

class ParameterStore {
 public:
  // Lays the parameters out: those with and without weight decay in two flat buffers, in the description's order inside
  // each, so that an optimizer step is one call a group and the weights of one product lie next to each other.
  // Parameters of which `frozen[i]` is set have values but no gradient and belong to no group. compute_type is float or
  // bfloat16. Gradient buffers are allocated at the first begin_step: a store that only evaluates has none.
  ParameterStore(const model::ModelDescription& model, std::vector<bool> frozen, at::ScalarType compute_type,
                 at::Device device);

  // Fills master values from the descriptions' initializers. Element i of a parameter depends only on the seed, its
  // path and i.
  void initialize(uint64_t seed);

  [[nodiscard]] size_t size() const { return entries_.size(); }
  [[nodiscard]] const std::string& path(int index) const;
  [[nodiscard]] const at::Tensor& master(int index) const;  // fp32
  [[nodiscard]] const at::Tensor& value(int index) const;   // compute type; the master itself in fp32
  [[nodiscard]] bool frozen(int index) const;
  [[nodiscard]] at::ScalarType compute_type() const { return compute_type_; }

  // Several parameters as one: matrices below each other, [sum of rows, columns], vectors behind each other. Undefined
  // where they do not lie next to each other (some of them are frozen); gradients: nor if only some were written in
  // this step.
  [[nodiscard]] at::Tensor joined_value(std::span<const int> indices) const;
  GradientTarget joined_gradient_target(std::span<const int> indices);

  // Claims the gradient buffer for a write in this step. Undefined buffer if frozen.
  GradientTarget gradient_target(int index);
  // The gradient of this step, zeros where nothing was written. Undefined if frozen.
  at::Tensor gradient(int index);
  void begin_step();              // forgets which gradients were written
  void refresh_compute_copies();  // after master values changed

  // Flat views for the optimizer.
  struct Group {
    bool weight_decay;
    at::Tensor master;            // fp32, one dimension
    at::Tensor gradient;          // like master; undefined before the first begin_step
    std::vector<int> parameters;  // in the order of the buffer
  };
  // Zeroes the gradients that nobody wrote in this step.
  void finish_gradients();
  [[nodiscard]] const std::vector<Group>& groups() const { return groups_; }

  // xxh64 over the full fp32 master values, little-endian, in the order of their sorted paths; tied ones once.
  [[nodiscard]] uint64_t parameter_hash() const;

 private:
  struct Entry {
    std::string path;
    model::Initializer initializer;
    std::vector<int64_t> shape;
    int group = -1;      // -1: frozen
    int64_t offset = 0;  // in the buffers of its group, in elements
    at::Tensor master, value, gradient;
    bool written = false;
  };
  [[nodiscard]] const Entry& entry(int index) const { return entries_.at(static_cast<size_t>(index)); }
  Entry& entry(int index) { return entries_.at(static_cast<size_t>(index)); }
  [[nodiscard]] at::Tensor joined(std::span<const int> indices, const at::Tensor& flat) const;
  [[nodiscard]] bool adjacent(std::span<const int> indices) const;
  void allocate_gradients();

  std::vector<Entry> entries_;
  std::vector<Group> groups_;
  std::vector<at::Tensor> compute_copies_;  // one a group, flat; undefined in fp32
  at::Tensor frozen_master_, frozen_copy_;
  at::ScalarType compute_type_;
};

}  // namespace weft::nn
