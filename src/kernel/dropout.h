// Dropout whose mask is a function of the step, the operator's path and the element's place in the global batch: it is
// computed again in the backward instead of kept, and does not depend on micro-batches or layout
// (docs/random-numbers.md).
#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "base/philox.h"
#include "base/units.h"
#include "kernel/loops/loops.h"
#include "kernel/operator.h"

namespace weft::kernel {

struct Dropout {
  double probability = 0;  // in [0, 1); 0: none
  RandomKey key;
  at::Tensor sample_ids;  // int64 [sequences]
  // Where a tensor holds a part of its sequences: their whole length, and the positions held, in the tensor's order.
  int64_t length = 0;  // 0: the tensor holds whole sequences
  std::vector<Range> positions = {};

  [[nodiscard]] bool enabled() const { return probability > 0; }
  [[nodiscard]] DropoutMask mask() const;
  // Calls body(first place in the tensor, first number in the stream, count) for the elements of a tensor
  // [sequences, length, rest] that follow each other in the stream.
  template <typename Body>
  void each_run(int64_t held_length, int64_t rest, Body body) const;
};

// (x, dropout): zeroes elements of x [sequences, length, ...], contiguous, in place and scales the others by
// 1 / (1 - probability). Its gradient is the same function of the upper gradient.
extern const Operator<void(const at::Tensor&, const Dropout&)> apply_dropout;

template <typename Body>
void Dropout::each_run(int64_t held_length, int64_t rest, Body body) const {
  const std::vector<Range> all = {{0, held_length}};
  const int64_t whole = length > 0 ? length : held_length;
  const at::Tensor ids = sample_ids.cpu().contiguous();
  int64_t place = 0;
  for (int64_t sequence = 0; sequence < ids.numel(); ++sequence) {
    const auto first = static_cast<uint64_t>(ids.const_data_ptr<int64_t>()[sequence]) * static_cast<uint64_t>(whole);
    for (const Range& run : length > 0 ? positions : all) {
      body(place, (first + static_cast<uint64_t>(run.begin)) * static_cast<uint64_t>(rest), run.size() * rest);
      place += run.size() * rest;
    }
  }
}

// The factors (0 or 1 / (1 - probability)) of a tensor [sequences, length, rest], fp32 on the CPU.
at::Tensor dropout_factors(const Dropout& dropout, int64_t length, int64_t rest);

}  // namespace weft::kernel
