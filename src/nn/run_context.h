// Everything a segment may know of the step it runs in. Explicit, never thread-local.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "nn/leaf_gradients.h"
#include "nn/parameter_store.h"
#include "nn/shard.h"

namespace weft::nn {

// The tokens of one micro-batch that a context rank holds. All are int64, on the compute device; tokens, targets and
// positions are [sequences, tokens held of each], in the order of context_units (shard.h).
struct MicroBatch {
  at::Tensor tokens;
  at::Tensor targets;    // -1: not predicted
  at::Tensor positions;  // of the token in its document (or in its sequence, where documents are joined)
  // [sequences, length], of whole sequences, since keys need them. Undefined: attention crosses the whole sequence;
  // else the document's index in the sequence.
  at::Tensor documents;
  at::Tensor sample_ids;  // [sequences], global; keys of random numbers
  int64_t length = 0;     // of whole sequences; 0: what the tokens have

  [[nodiscard]] int64_t whole_length() const { return length > 0 ? length : tokens.size(1); }
};

// Keys and values of earlier tokens, for generation. One entry a layer, by the path of its attention segment, filled by
// the segments; a cache that is empty starts a text. All sequences of a batch have the same number of earlier tokens;
// the batch's positions continue theirs.
struct KeyValueCache {
  struct Entry {
    at::Tensor key, value;  // [sequences, capacity, kv_heads, head_dim]
    int64_t length = 0;     // tokens held so far
  };
  std::map<std::string, Entry> entries;
};

// How a backward treats weight gradients.
enum class WeightGradients {
  kNow,    // Backward: computed at once
  kQueue,  // BackwardInput: kept in the queue until BackwardWeight runs it
};

inline constexpr double kExactLoss = 0x1p-40;  // nats

struct RunContext {
  bool training = false;  // keep what the backward needs; apply dropout
  uint64_t seed = 0;
  int64_t step = 0;          // keys random numbers
  double loss_scale = 1;     // 1 / target tokens of the global batch: what a token's loss counts in gradients
  Shard shard;               // what this rank computes
  int64_t first_sample = 0;  // id of the global batch's first sequence: leaves of sums are numbered from it
  const MicroBatch* batch = nullptr;
  ParameterStore* parameters = nullptr;
  KeyValueCache* cache = nullptr;  // set in generation only

  LeafGradients* leaf_gradients = nullptr;  // in strict mode: takes all weight gradients instead of `parameters`

  WeightGradients weight_gradients = WeightGradients::kNow;
  std::vector<std::function<void()>> weight_gradient_queue;

  // The side channel: sums over this micro-batch, by name ("loss_sum" of the loss segment; later router statistics).
  std::map<std::string, double> metrics;
  // In strict mode the loss's sum as a multiple of kExactLoss: integers add up the same in every order. Below 2^23
  // nats.
  int64_t exact_loss_sum = 0;

  // Runs or queues the computation of one or several weight gradients. `compute` accumulates into parameter gradients
  // through ParameterStore::gradient.
  void weight_gradient(std::function<void()> compute) {
    if (weight_gradients == WeightGradients::kNow) {
      compute();
    } else {
      weight_gradient_queue.push_back(std::move(compute));
    }
  }
};

}  // namespace weft::nn
