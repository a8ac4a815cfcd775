// What a lowered schedule makes a rank say to the others, call by call, known before any tensor is.
#pragma once

#include <vector>

#include "comm/recorder.h"
#include "execute/ranks.h"
#include "model/description.h"
#include "nn/parameter_store.h"
#include "schedule/schedule.h"

namespace weft::execute {

struct BatchShape {
  std::vector<int64_t> sequences;  // of each of this rank's micro-batches
  int64_t length = 0;              // of whole sequences
};

// The calls of one step outside strict mode, of groups of more than one rank, as comm::Recorder counts them.
[[nodiscard]] comm::Traffic planned_traffic(const schedule::Schedule& lowered, const model::ModelDescription& model,
                                            const nn::ParameterStore& parameters, Ranks& ranks,
                                            const BatchShape& batch);

}  // namespace weft::execute
