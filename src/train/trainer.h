// A training run: batch, plan, execute, step, measure. docs/training.md.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/one.h"
#include "data/dataset.h"
#include "execute/executor.h"
#include "execute/parameter_traffic.h"
#include "execute/ranks.h"
#include "model/description.h"
#include "nn/parameter_store.h"
#include "recipe/timetable.h"
#include "run/layout.h"
#include "run/run_node.h"
#include "run/step_schedule.h"
#include "schedule/roles.h"
#include "schedule/schedule.h"
#include "train/batch_record.h"
#include "train/optimizer.h"
#include "train/reporter.h"
#include "train/run_data.h"
#include "train/run_folder.h"
#include "train/training_checkpoint.h"

namespace weft::train {

// A step of another run whose state a new one starts from.
struct BranchPoint {
  std::filesystem::path run;  // its folder
  int64_t step = 0;
};

struct TrainRequest {
  bool resume = false;
  std::optional<BranchPoint> branch;  // not with resume
  // Set to a signal's number when the run is to stop: it finishes its step and saves.
  const std::atomic<int>* stop_signal = nullptr;
  // The ranks of the run, of which this Trainer is one; null: it is alone.
  comm::World* world = nullptr;
  // What ranks of one process share; each rank opens its own where it is not given.
  RunData data;
};

struct TrainSummary {
  int64_t steps = 0;
  std::optional<double> loss;             // of the last step that this process did
  std::optional<double> validation_loss;  // whole validation part, final weights
  int64_t tokens = 0;                     // target tokens of the whole run
  double tokens_per_second = 0;           // of the steps of this process
  uint64_t parameter_hash = 0;
  std::string run;  // its folder
};

class Trainer {
 public:
  // Opens data and model, takes the run's folder and, for a resume, its newest complete checkpoint. Nothing is written
  // before everything that can be checked was. InputError and Error say what is wrong. Every rank is made and run with
  // the same run and request; rank 0 writes the folder, and all of them read it.
  Trainer(run::RunNode run, const TrainRequest& request);

  // Trains to the last step, saves, and evaluates. Interrupted when the stop signal came to any rank, the state saved.
  // Error where the loss is not a number or the state could not be saved.
  TrainSummary run();

 private:
  void join_ranks();
  void open_folder();
  void make_model();
  void enter_phase();
  void check_samples(const std::filesystem::path& checkpoint) const;
  void prepare_samples();
  void load();
  void resume();
  void branch();
  void check_step(const std::filesystem::path& checkpoint) const;
  void write_start();

  void step();
  [[nodiscard]] data::SampleBatch training_batch(Range sequences) const;
  [[nodiscard]] int64_t target_tokens(const std::vector<data::SampleBatch>& own) const;
  void finish_step(const execute::StepOutput& output, StepMetrics metrics);
  std::optional<double> validation_loss(int64_t tokens);
  void sample_text();
  void save();
  void stop();
  [[nodiscard]] TrainedState state();
  [[nodiscard]] bool leads() const { return ranks_->rank() == 0; }

  run::RunNode run_;
  TrainRequest request_;
  comm::OneWorld alone_;
  std::unique_ptr<execute::Ranks> ranks_;
  RunData data_;
  model::ModelDescription model_;
  std::unique_ptr<nn::ParameterStore> parameters_;
  std::unique_ptr<execute::ParameterTraffic> traffic_;
  std::unique_ptr<execute::Executor> executor_;
  std::unique_ptr<RunOptimizer> optimizer_;
  std::unique_ptr<const recipe::Timetable> timetable_;  // of run_
  const recipe::Stretch* stretch_ = nullptr;            // that cut_ and schedule_ were made for
  run::BatchCut cut_;
  schedule::Schedule schedule_, evaluation_;  // lowered
  std::string plan_;                          // of the phase
  std::vector<data::TokenId> sample_prompt_;
  std::filesystem::path directory_, checkpoints_;
  std::unique_ptr<RunFolder> folder_;    // of rank 0
  std::unique_ptr<Reporter> reporter_;   // of rank 0
  std::unique_ptr<BatchRecord> record_;  // of rank 0; null: not asked for
  Progression now_;
  std::optional<int64_t> saved_step_;
  std::optional<double> last_loss_;
  std::optional<double> whole_validation_loss_;  // with the parameters as they are, if it was measured
  bool stopping_ = false;
  int64_t timed_tokens_ = 0;
  double timed_seconds_ = 0;
};

}  // namespace weft::train
