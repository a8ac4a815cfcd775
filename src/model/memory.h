// How much memory a training step needs on a rank, before it starts.
#pragma once

#include <cstdint>
#include <vector>

#include "model/description.h"

namespace weft::model {

struct MemoryQuestion {
  Rows micro_batch;
  int64_t compute_bytes = 4;     // of a value between segments: 4 in fp32, 2 in bf16
  int64_t optimizer_values = 2;  // fp32 numbers an optimizer keeps a parameter: 2 for AdamW
  std::vector<bool> frozen;      // a parameter, true: it has neither gradient nor optimizer state; empty: none
  // Ranks that divide the matrices, each sequence, and (from the optimizer's state on, at zero 2 gradients too, at 3
  // values too) each bucket of parameters.
  int64_t tensor = 1;
  int64_t context = 1;
  int64_t shards = 1;
  int zero = 0;
  int whole_buckets = 2;  // at zero 3: of them values and gradients are whole
};

// Bytes. Masters, gradients and optimizer state are fp32.
struct MemoryEstimate {
  double parameters = 0;      // masters
  double compute_copies = 0;  // whole values, where they are not the masters
  double gradients = 0;
  double optimizer = 0;
  double activations = 0;  // what the forward of one micro-batch keeps for its backward
  double logits = 0;       // fp32; the loss turns them into their gradient in place
  double workspace = 0;    // inputs, outputs and gradients of the largest segment while its backward runs
  [[nodiscard]] double total() const {
    return parameters + compute_copies + gradients + optimizer + activations + logits + workspace;
  }
};

[[nodiscard]] MemoryEstimate estimate_memory(const ModelDescription& model, const MemoryQuestion& question);

// The most sequences a micro-batch (of the question's length) that fit into these bytes; 0: not even one.
[[nodiscard]] int64_t fitting_sequences(const ModelDescription& model, const MemoryQuestion& question, double bytes);

}  // namespace weft::model
