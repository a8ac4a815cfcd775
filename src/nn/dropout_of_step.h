// The dropout of one operator in the step of a context.
#pragma once

#include <cstdint>

#include "kernel/dropout.h"
#include "nn/run_context.h"

namespace weft::nn {

// None outside training.
inline kernel::Dropout dropout_of_step(const RunContext& context, double probability, uint64_t path_hash) {
  if (!context.training || probability <= 0) return {};
  return {probability,
          random_key(context.seed, RandomPurpose::kDropout, static_cast<uint64_t>(context.step), path_hash),
          context.batch->sample_ids};
}

}  // namespace weft::nn
