// What a run learns from, opened. Immutable, so that ranks in one process share it.
#pragma once

#include <memory>

#include "data/dataset.h"
#include "data/tokenizer.h"
#include "run/run_node.h"

namespace weft::train {

struct RunData {
  std::shared_ptr<const data::Tokenizer> tokenizer;  // null: stores alone, and none beside them
  std::shared_ptr<const data::Dataset> dataset;
};

// Opens the data of a run and sets the model's vocabulary where it follows from the tokenizer. InputError says what is
// wrong.
[[nodiscard]] RunData open_data(run::RunNode& run);

}  // namespace weft::train
