// What the executor asks of an optimizer. Declared here, so that the interpreter of schedules knows no optimizer.
#pragma once

#include <cstdint>

#include "nn/parameter_store.h"

namespace weft::execute {

// What is known of a step before the parameters change.
struct StepFacts {
  int64_t step = 0;
  double loss = 0;           // mean over the target tokens of the global batch, in nats
  double gradient_norm = 0;  // L2, over all parameters that are not frozen, before clipping
};

class OptimizerStep {
 public:
  virtual ~OptimizerStep() = default;

  // Changes the master values and refreshes the compute copies. May throw before it changed anything, which ends the
  // run with the parameters of the step before.
  virtual void apply(nn::ParameterStore& parameters, const StepFacts& facts) = 0;
};

}  // namespace weft::execute
