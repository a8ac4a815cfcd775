// A small run for the tests of this room.
#pragma once

#include "model/family.h"
#include "run/run_node.h"

namespace weft::train {

inline run::RunNode small_run() {
  model::LlamaFamily family;
  family.vocabulary = 11;
  family.width = 8;
  family.layers = 2;
  family.heads = 2;
  family.ffn = 16;
  run::RunNode run;
  run.model = family.model();
  run.data.context = 4;
  run.train.global_batch = 6;
  return run;
}

}  // namespace weft::train
