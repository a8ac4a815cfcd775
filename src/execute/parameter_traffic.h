// Moves parameters and their gradients between ranks: buckets made whole, gradients added, single parameters gathered.
#pragma once

#include <functional>
#include <vector>

#include <ATen/core/Tensor.h>

#include "execute/ranks.h"
#include "model/description.h"
#include "nn/leaf_gradients.h"
#include "nn/parameter_store.h"

namespace weft::execute {

class ParameterTraffic {
 public:
  // All must outlive it.
  ParameterTraffic(const model::ModelDescription& model, nn::ParameterStore& parameters, Ranks& ranks);

  // Gathers a bucket's values from the ranks that divide it.
  void unshard(int bucket);
  void reshard(int bucket) { parameters_.close_values(bucket); }
  // Every bucket whole: what follows a load or an initialisation where buckets stay whole (zero 1 and 2).
  void unshard_all();

  // Adds the gradients of a bucket over all ranks that hold the same parameters: first those that are partial over the
  // tensor ranks, then over the replicas; of a divided bucket each rank keeps the sum of its shard.
  void reduce_gradient(int bucket);
  // A bucket that roles share: its reduced gradient from the borrower to the owner (kBackward), who adds it, or its new
  // values back. `peer`: the other role.
  void move_borrowed(int bucket, int peer, schedule::Direction direction);
  // All gradients of a step in strict mode, from the leaves of all ranks over `samples` samples.
  void set_gradients(nn::LeafGradients& leaves, int64_t samples);

  // What belongs to a parameter, of which each rank has the elements that its masters hold (flat, as Piece::master), as
  // one rank would hold it, on every rank.
  [[nodiscard]] at::Tensor whole(int index, const at::Tensor& piece);
  [[nodiscard]] at::Tensor whole_parameter(int index) { return whole(index, parameters_.piece(index).master); }
  // parameter_hash of ParameterStore, whatever the layout.
  [[nodiscard]] uint64_t parameter_hash();

 private:
  void add_over_tensor(int bucket);

  void assign_sums(const std::vector<nn::LeafGradients::Gradient>& sums,
                   const std::function<bool(int parameter)>& chosen);
  [[nodiscard]] at::Tensor whole_on_role(int index, const at::Tensor& held_here);

  nn::ParameterStore& parameters_;
  Ranks& ranks_;
  std::vector<model::TensorCut> cuts_;     // by parameter
  std::vector<int> owner_;                 // by parameter: the pipeline role
  std::vector<bool> tied_;                 // by parameter: used by several segments
  std::vector<bool> partial_over_tensor_;  // by parameter
};

}  // namespace weft::execute
