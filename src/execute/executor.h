// The interpreter of lowered schedules on one rank. It has one handler an op and no opinion on their order: that is the
// schedule's, which was validated before. docs/execution.md.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "execute/optimizer_step.h"
#include "execute/parameter_traffic.h"
#include "execute/ranks.h"
#include "execute/value_traffic.h"
#include "model/description.h"
#include "nn/parameter_store.h"
#include "nn/run_context.h"
#include "nn/segment.h"
#include "schedule/schedule.h"

namespace weft::execute {

// Told of every action, for traces and timelines. Called on the executing thread.
class ActionObserver {
 public:
  virtual ~ActionObserver() = default;
  virtual void begin(size_t index, const schedule::Action& action) = 0;
  virtual void end(size_t index, const schedule::Action& action) = 0;
};

struct StepInput {
  std::span<const nn::MicroBatch> micro_batches;  // as many as the schedule has; nothing is computed of an empty one
  int64_t step = 0;
  int64_t first_sample = 0;  // id of the global batch's first sequence
  int64_t samples = 0;       // sequences of the global batch; needed in strict mode
  uint64_t seed = 0;
  int64_t target_tokens = 0;           // of the global batch, > 0: what sums over tokens are divided by
  bool stop = false;                   // this rank wants to stop behind the step
  OptimizerStep* optimizer = nullptr;  // needed by schedules with a Step
  ActionObserver* observer = nullptr;
};

struct StepOutput {
  double loss = 0;                        // sum over the target tokens divided by StepInput::target_tokens
  double gradient_norm = 0;               // of a schedule that trains
  std::map<std::string, double> metrics;  // the segments' sums over the global batch (RunContext::metrics)
  bool stop = false;                      // some rank wants to stop
};

class Executor {
 public:
  // `segments` compute those of `model`, in order; all others must outlive the executor. `ranks`: null for a rank that
  // is alone and not strict.
  Executor(const model::ModelDescription& model, std::vector<std::unique_ptr<nn::Segment>> segments,
           nn::ParameterStore& parameters, Ranks* ranks = nullptr);

  // Runs this rank's role of a lowered schedule. A schedule without a Step is an evaluation: nothing is kept, nothing
  // changes. Exceptions of segments and of the optimizer pass through; what was kept for the step is dropped.
  StepOutput run(const schedule::Schedule& lowered, const StepInput& input);

 private:
  const model::ModelDescription& model_;
  std::vector<std::unique_ptr<nn::Segment>> segments_;
  nn::ParameterStore& parameters_;
  Ranks* ranks_;
  std::optional<ValueTraffic> values_;                 // with ranks
  std::optional<ParameterTraffic> parameter_traffic_;  // with ranks
  std::vector<bool> is_root_;  // a value: an output that no segment reads, whose gradient is the loss scale
};

}  // namespace weft::execute
