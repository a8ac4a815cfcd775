// The parameters of a model on one rank, in buckets (model/buckets.h): fp32 master values, values in the compute type,
// and gradients. Under tensor parallelism a parameter is the rank's slice of it; under ZeRO the masters, and what the
// optimizer keeps, are a shard of each bucket, and values and gradients of a bucket are whole only while they are used.
// docs/data-parallelism.md.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "base/units.h"
#include "model/buckets.h"
#include "model/description.h"
#include "nn/shard.h"

namespace weft::nn {

// Whether a weight gradient is the first written to its buffer in this step (overwrite) or must be added. A buffer is
// never cleared: the first writer of a step overwrites it.
struct GradientTarget {
  at::Tensor buffer;  // fp32, the parameter's shape
  bool accumulate;    // false: the contents are stale and must be overwritten whole
};

// Whether a rank holds the parameters of a bucket: not at all, as what it updates, or as a copy of what another
// pipeline role updates (schedule/roles.h), with gradients of its own.
enum class Held : uint8_t { kAbsent, kOwned, kBorrowed };

// How the parameters lie over ranks.
struct StoreLayout {
  Shard shard;              // which slice of each parameter
  int64_t shards = 1;       // of each bucket: ranks that divide masters and optimizer state among them
  int64_t shard_index = 0;  // this rank's
  // By bucket: how this rank holds it, and the pipeline role that owns it. Empty: there is one role.
  std::vector<Held> held;
  std::vector<int> owner;
};

// The part of a parameter that a rank's masters hold: elements `range`, row-major, of the box (offset, shape) of the
// global tensor.
struct Piece {
  int parameter = 0;
  std::vector<int64_t> offset, shape;
  Range range;
  Range owned;        // those elements of `range` that no other tensor rank holds, or this one is the first to hold
  at::Tensor master;  // fp32, flat, a view
  [[nodiscard]] int64_t elements() const;  // of the box
};

class ParameterStore {
 public:
  // A bucket's buffer holds first the parameters with weight decay and then those without, each in the description's
  // order, so that the weights of one product lie next to each other. Parameters of which `frozen[i]` is set have whole
  // values, no gradient, and belong to no group. compute_type is float or bfloat16. Gradient buffers are allocated when
  // they are first written: a store that only evaluates has none.
  ParameterStore(const model::ModelDescription& model, std::vector<bool> frozen, at::ScalarType compute_type,
                 at::Device device, const StoreLayout& layout = {});

  // Fills master values from the descriptions' initializers. Element i of a parameter depends only on the seed, its
  // path and i, its index in the global tensor.
  void initialize(uint64_t seed);
  // Copies this rank's piece of a global tensor, shaped as the parameter is, to `piece`, flat.
  void cut(int index, const at::Tensor& global, const at::Tensor& piece) const;
  // The masters' piece of a parameter's global values.
  void assign(int index, const at::Tensor& global) { cut(index, global, entry(index).piece.master); }

  [[nodiscard]] size_t size() const { return entries_.size(); }
  [[nodiscard]] const std::string& path(int index) const { return entry(index).path; }
  [[nodiscard]] const std::vector<int64_t>& global_shape(int index) const { return entry(index).global_shape; }
  [[nodiscard]] const StoreLayout& layout() const { return layout_; }
  // This rank's slice in fp32. Only where buckets are not divided (shards = 1).
  [[nodiscard]] const at::Tensor& master(int index) const;
  // This rank's slice in the compute type; the master itself in fp32 with shards = 1. WEFT_CHECK: the bucket is whole.
  [[nodiscard]] const at::Tensor& value(int index) const;
  [[nodiscard]] bool frozen(int index) const { return entry(index).frozen; }
  [[nodiscard]] bool weight_decay(int index) const { return entry(index).weight_decay; }
  [[nodiscard]] at::ScalarType compute_type() const { return compute_type_; }
  // What this rank holds of a parameter; nothing of one in a bucket that is absent.
  [[nodiscard]] const Piece& piece(int index) const { return entry(index).piece; }
  [[nodiscard]] Held held_as(int index) const { return entry(index).held; }

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
  void refresh_compute_copies();  // after master values changed; with shards > 1 of the own part alone

  // What the optimizer changes: the parameters with or without weight decay of one owned bucket's shard, without gaps.
  // Every rank of a pipeline role has the same groups with the same pieces, some of them empty.
  struct Group {
    bool weight_decay = true;
    int bucket = 0;
    at::Tensor master;        // fp32, one dimension
    at::Tensor gradient;      // like master; undefined before the first write
    std::vector<int> pieces;  // parameters, in the order of the buffer
  };
  [[nodiscard]] const std::vector<Group>& groups() const { return groups_; }
  // Zeroes the gradients that nobody wrote in this step.
  void finish_gradients();

  // Buckets, for what moves them between ranks. Frozen parameters are in none.
  [[nodiscard]] int buckets() const { return static_cast<int>(buckets_.size()); }
  [[nodiscard]] int bucket_of(int index) const { return entry(index).bucket; }
  [[nodiscard]] const std::vector<int>& parameters_of(int bucket) const { return held(bucket).parameters; }
  [[nodiscard]] Held held_bucket(int bucket) const;
  // Elements of each rank's shard, in their order.
  [[nodiscard]] std::vector<int64_t> shard_sizes(int bucket) const;
  // Elements of a parameter's slice in each of them.
  [[nodiscard]] std::vector<int64_t> piece_sizes(int index) const;
  [[nodiscard]] at::Tensor own_values(int bucket) const;  // the own shard in the compute type
  // The buffer for all values, whose views value() returns from now on.
  at::Tensor open_values(int bucket);
  void close_values(int bucket);
  [[nodiscard]] bool has_values(int bucket) const { return held(bucket).values.defined(); }
  // The own shard of a bucket's master values, and of its gradient once it was reduced (WEFT_CHECK), flat.
  [[nodiscard]] const at::Tensor& masters(int bucket) const { return held(bucket).master; }
  at::Tensor reduced_gradient(int bucket);
  // All gradients of this rank's slices, zeros where nothing was written.
  at::Tensor open_gradients(int bucket);
  // With shards > 1: adds `reduced` to the shard's gradient (or makes it that, first in a step) and frees the whole
  // one.
  void close_gradients(int bucket, const at::Tensor& reduced);

  // xxh64 over the full fp32 master values, little-endian, in the order of their sorted paths; tied ones once. Only
  // where this rank holds them all.
  [[nodiscard]] uint64_t parameter_hash() const;
  [[nodiscard]] std::vector<int> sorted_by_path() const;

 private:
  struct Entry {
    std::string path;
    model::Initializer initializer;
    std::vector<int64_t> global_shape;
    int cut_dim = -1;  // of the slice, -1: whole
    bool frozen = false;
    bool weight_decay = true;
    Held held = Held::kOwned;
    int bucket = -1;     // -1: frozen
    int64_t offset = 0;  // of the slice in its bucket, or among the frozen ones, in elements
    Piece piece;
    at::Tensor master, value, gradient;
    bool written = false;
    [[nodiscard]] int64_t elements() const { return piece.elements(); }  // of the slice
  };
  struct Bucket {
    std::vector<int> parameters;  // in the order of the buffer
    int64_t size = 0;
    Range shard;
    at::Tensor master;          // the shard's
    at::Tensor values;          // all; undefined while closed
    at::Tensor gradient;        // all; undefined before the first write and while closed
    at::Tensor shard_gradient;  // the gradient itself with shards = 1
    bool shard_written = false;
  };
  [[nodiscard]] const Entry& entry(int index) const { return entries_.at(static_cast<size_t>(index)); }
  Entry& entry(int index) { return entries_.at(static_cast<size_t>(index)); }
  [[nodiscard]] const Bucket& held(int bucket) const { return buckets_.at(static_cast<size_t>(bucket)); }
  Bucket& held(int bucket) { return buckets_.at(static_cast<size_t>(bucket)); }
  void describe(const model::ModelDescription& model, const std::vector<bool>& frozen);
  void place(const model::ModelDescription& model);
  void allocate(at::Device device);
  void make_piece(int index);
  void make_groups();
  [[nodiscard]] at::Tensor joined(std::span<const int> indices, const at::Tensor& flat) const;
  [[nodiscard]] bool adjacent(std::span<const int> indices) const;
  void allocate_gradient(int bucket);

  StoreLayout layout_;
  at::ScalarType compute_type_;
  std::vector<Entry> entries_;
  std::vector<Bucket> buckets_;
  std::vector<Group> groups_;
  at::Tensor frozen_master_, frozen_values_;
};

}  // namespace weft::nn
