// From rows of tokens to the tensors of a micro-batch.
#pragma once

#include "data/token_stream.h"
#include "nn/run_context.h"

namespace weft::train {

// Copies; the sample batch may go.
[[nodiscard]] nn::MicroBatch micro_batch_of(const data::SampleBatch& batch);

}  // namespace weft::train
