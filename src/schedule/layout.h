// How the ranks of a run divide the work, and what must move between them for it: placements of the values between
// segments and of the parameters' gradients. docs/layouts.md.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "mesh/spec.h"
#include "model/description.h"

namespace weft::schedule {

// Degrees of [parallel]. All 1: one rank.
struct Layout {
  int64_t pipeline = 1;   // roles, each with its stages of the model
  int64_t data = 1;       // replicas
  int64_t fsdp = 1;       // shards within a replica
  int64_t context = 1;    // parts of each sequence
  int64_t tensor = 1;     // parts of each matrix
  bool sequence = false;  // norms and residuals hold a part of the sequence a tensor rank
  int zero = 0;           // 1: optimizer state, 2: and gradients, 3: and parameters are divided into shards()
  // With zero = 3: what a rank holds whole at a time, at least 1. Stages where the stage level says when they are
  // gathered (passes.h, place_shards), else buckets.
  int whole_stages = 2;
  int whole_buckets = 2;

  [[nodiscard]] int64_t ranks() const { return pipeline * data * fsdp * context * tensor; }
  [[nodiscard]] int64_t batch_ranks() const { return data * fsdp; }  // ranks that divide the sequences of a batch
  [[nodiscard]] int64_t shards() const { return zero == 0 ? 1 : fsdp > 1 ? fsdp : data; }
  // The mesh axis that shards() lie on.
  [[nodiscard]] std::string_view shard_axis() const { return fsdp > 1 ? "fsdp" : "dp"; }
  // Axes pp, dp, fsdp, cp, tp, in the order of ranks.
  [[nodiscard]] mesh::Mesh mesh() const;
};

// A value as its segment writes it and as its readers read it, on the one axis where the two differ.
struct ValueLayout {
  enum class Axis : uint8_t { kNone, kContext, kTensor };
  Axis axis = Axis::kNone;
  mesh::Placement made, read;
  bool has_gradient = true;
  [[nodiscard]] bool moves_forward() const;
  [[nodiscard]] bool moves_backward() const;
};

// One for each value of the model. Along the context axis every value of tokens is cut in the sequence; keys and values
// are gathered for the attention. Along the tensor axis: Partial sums of embedding, attention and MLP become Invariant,
// or parts of the sequence; what a norm wrote is read Replicate by column-cut products; statistics of a cut vocabulary
// are gathered.
[[nodiscard]] std::vector<ValueLayout> value_layouts(const model::ModelDescription& model, const Layout& layout);

// Whether the gradient of each parameter is a partial sum on the tensor axis: norms of parts of the sequence, norms of
// heads, and key/value heads that several ranks hold.
[[nodiscard]] std::vector<bool> partial_over_tensor(const model::ModelDescription& model, const Layout& layout);

}  // namespace weft::schedule
