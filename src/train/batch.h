// From the data's rows to what the segments read.
#pragma once

#include "data/token_stream.h"
#include "nn/run_context.h"

namespace weft::train {

// The tokens of a batch that a context rank holds (nn/shard.h), in the order in which it holds them.
[[nodiscard]] nn::MicroBatch micro_batch_of(const data::SampleBatch& batch, const nn::Shard& shard = {});

}  // namespace weft::train
