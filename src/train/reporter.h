// What a run tells while it goes on: a line for people, metrics for programs, curves for TensorBoard, events.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/json_fwd.h"
#include "base/progress.h"
#include "train/line_log.h"
#include "train/run_folder.h"
#include "train/tensorboard.h"

namespace weft::train {

// One step, counted from 1: what metrics.jsonl holds of it.
struct StepMetrics {
  int64_t step = 0;
  double loss = 0;
  double learning_rate = 0;
  int64_t tokens = 0;  // target tokens of this step
  double gradient_norm = 0;
  double seconds = 0;
  std::optional<double> validation_loss;  // with the parameters after this step
};

class Reporter {
 public:
  // Continues the logs behind `done` steps of `steps`.
  Reporter(const RunFolder& folder, int64_t done, int64_t steps);

  void step(const StepMetrics& metrics);
  // A state change: time, event and the given members.
  void event(std::string_view name, int64_t step, const OrderedJson& members);
  // A line on standard error that does not tear the progress line.
  void line(std::string_view text);

 private:
  LineLog metrics_, events_;
  TensorBoardWriter curves_;
  Progress progress_;
  int64_t first_;
  std::chrono::steady_clock::time_point flushed_;
};

}  // namespace weft::train
