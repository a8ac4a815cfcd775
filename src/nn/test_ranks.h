// For tests: a model on several ranks in one process, with the traffic between segments done by hand as the executor
// does it.
#pragma once

#include <cstdint>
#include <vector>

#include "nn/test_model.h"

namespace weft::nn {

// Of the tensor and context ranks; each micro-batch is another rank of data parallelism.
struct TestLayout {
  int64_t tensor = 1, context = 1;
  bool sequence = false, strict = false;
  [[nodiscard]] std::string name() const;
};

struct TestOutcome {
  double loss = 0;
  int64_t exact_loss = 0;
  Tensors gradients;  // global, by parameter; undefined where frozen
};

// A small Llama with this many heads, for more ranks than key/value heads.
ModelCase case_of_heads(int64_t heads, int64_t kv_heads);

// One training step over whole micro-batches, whose samples are numbered from `first_sample` on without gaps. Weight
// gradients wait until the last input gradient where there are several micro-batches.
TestOutcome train_on_ranks(const TestModel& model, const TestLayout& layout,
                           const std::vector<MicroBatch>& micro_batches, int64_t first_sample);

}  // namespace weft::nn
