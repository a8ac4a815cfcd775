// Logits of a model, without a loss: what generation asks for. Nothing is kept for a backward.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include <ATen/core/Tensor.h>

#include "data/tokenizer.h"
#include "model/description.h"
#include "nn/parameter_store.h"
#include "nn/segment.h"

namespace weft::serve {

// One sequence that grows: tokens are appended, keys and values of earlier ones are kept. One thread.
class GrowingSequence {
 public:
  // Both must outlive it.
  GrowingSequence(const model::ModelDescription& model, nn::ParameterStore& parameters);

  // Appends tokens (at least one, ids below the vocabulary) and computes the logits that follow the last: fp32,
  // [vocabulary], on the CPU.
  [[nodiscard]] at::Tensor append(std::span<const data::TokenId> tokens);
  [[nodiscard]] int64_t length() const { return length_; }
  void clear();

 private:
  const model::ModelDescription& model_;
  nn::ParameterStore& parameters_;
  std::vector<std::unique_ptr<nn::Segment>> segments_;
  nn::KeyValueCache cache_;
  int64_t length_ = 0;
};

}  // namespace weft::serve
