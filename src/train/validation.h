// The loss on the part of the data that is not learnt from.
#pragma once

#include <cstdint>
#include <optional>

#include "data/dataset.h"
#include "execute/executor.h"
#include "execute/ranks.h"
#include "schedule/schedule.h"

namespace weft::train {

struct ValidationSettings {
  int64_t tokens = 0;     // predicted tokens to read at least, from the front, in whole windows; 0: all
  int64_t sequences = 1;  // of a micro-batch of each rank that divides a batch
};

struct ValidationResult {
  double loss = 0;     // mean over the predicted tokens, in nats
  bool whole = false;  // all of the validation data was read
};

// `forwards`: the lowered schedule of an evaluation. Nothing where there is no validation data. Depends on neither the
// step nor the seed. Every rank calls it.
[[nodiscard]] std::optional<ValidationResult> validate(execute::Executor& executor, const schedule::Schedule& forwards,
                                                       const data::Dataset& dataset, const execute::Ranks& ranks,
                                                       const ValidationSettings& settings);

}  // namespace weft::train
