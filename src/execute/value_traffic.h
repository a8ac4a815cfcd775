// Moves the values between segments, and their gradients, from the placement they were made in to the one they are read
// in (schedule/layout.h).
#pragma once

#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "execute/ranks.h"
#include "model/description.h"
#include "nn/leaves.h"
#include "nn/run_context.h"

namespace weft::execute {

class ValueTraffic {
 public:
  // `model` and `ranks` must outlive it.
  ValueTraffic(const model::ModelDescription& model, Ranks& ranks);

  // A value on its way to its readers, or its gradient on its way back to its maker. Sums of strict mode arrive as
  // stacks of the ranks' leaves (nn/leaves.h).
  [[nodiscard]] at::Tensor move(int value, nn::Direction direction, at::Tensor tensor, const nn::RunContext& context);

 private:
  struct Place {
    int value = 0;
    nn::Direction direction = nn::Direction::kForward;
    const nn::RunContext* context = nullptr;
  };
  [[nodiscard]] const schedule::ValueLayout& layout(const Place& place) const;
  [[nodiscard]] comm::Communicator& group(const Place& place) const;
  [[nodiscard]] std::string what(const Place& place) const;
  [[nodiscard]] nn::PartialLeaves leaves(const Place& place) const;
  // Tokens of a sequence that each rank of the value's axis holds.
  [[nodiscard]] std::vector<int64_t> token_counts(const Place& place) const;
  // For each token in the order in which the context ranks hold them, its place in the sequence.
  [[nodiscard]] std::vector<int64_t> token_places(const Place& place) const;

  [[nodiscard]] at::Tensor gather(const Place& place, const at::Tensor& tensor) const;
  [[nodiscard]] at::Tensor gather_statistics(const Place& place, const at::Tensor& tensor) const;
  [[nodiscard]] at::Tensor sum(const Place& place, at::Tensor tensor) const;
  [[nodiscard]] at::Tensor sum_and_scatter(const Place& place, const at::Tensor& tensor) const;
  // The part of a whole sequence that this rank of the value's axis holds.
  [[nodiscard]] at::Tensor own_tokens(const Place& place, const at::Tensor& whole) const;
  [[nodiscard]] at::Tensor merge(const Place& place, const nn::PartialLeaves& leaves, const at::Tensor& stack) const;

  const model::ModelDescription& model_;
  Ranks& ranks_;
  std::vector<schedule::ValueLayout> layouts_;
  std::vector<const model::SegmentDescription*> makers_, readers_;  // by value; the last reader
};

}  // namespace weft::execute
