// The dropout of one operator in the step of a context.
#pragma once

#include <cstdint>

#include "kernel/dropout.h"
#include "nn/run_context.h"
#include "nn/tokens.h"

namespace weft::nn {

// None outside training. Of values that hold whole sequences, or by attention's own addresses.
inline kernel::Dropout dropout_of_step(const RunContext& context, double probability, uint64_t path_hash) {
  if (!context.training || probability <= 0) return {};
  return {probability,
          random_key(context.seed, RandomPurpose::kDropout, static_cast<uint64_t>(context.step), path_hash),
          context.batch->sample_ids};
}

// Of values that hold these tokens.
inline kernel::Dropout dropout_of_step(const RunContext& context, double probability, uint64_t path_hash,
                                       const HeldTokens& tokens) {
  kernel::Dropout dropout = dropout_of_step(context, probability, path_hash);
  dropout.length = tokens.length;
  for (const TokenRun& run : tokens.runs()) dropout.positions.push_back(run.positions);
  return dropout;
}

}  // namespace weft::nn
