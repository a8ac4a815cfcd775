// A training run: batch, plan, execute, step, measure. docs/training.md.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "data/tokenizer.h"
#include "execute/executor.h"
#include "model/description.h"
#include "nn/parameter_store.h"
#include "run/run_node.h"
#include "schedule/schedule.h"
#include "train/batch_record.h"
#include "train/optimizer.h"
#include "train/reporter.h"
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
  // before everything that can be checked was. InputError and Error say what is wrong.
  Trainer(run::RunNode run, const TrainRequest& request);

  // Trains to the last step, saves, and evaluates. Interrupted when the stop signal came, the state saved. Error where
  // the loss is not a number or the state could not be saved.
  TrainSummary run();

 private:
  void open_folder();
  void make_model();
  void prepare_samples();
  void resume();
  void branch();
  void check_step(const std::filesystem::path& checkpoint) const;
  void write_start();

  void step();
  [[nodiscard]] std::vector<data::SampleBatch> next_batches() const;
  std::optional<double> validation_loss(int64_t tokens);
  void sample_text();
  void save();
  void stop_if_asked();

  run::RunNode run_;
  TrainRequest request_;
  std::shared_ptr<const data::Tokenizer> tokenizer_;
  std::unique_ptr<data::Dataset> dataset_;
  model::ModelDescription model_;
  std::unique_ptr<nn::ParameterStore> parameters_;
  std::unique_ptr<execute::Executor> executor_;
  std::unique_ptr<RunOptimizer> optimizer_;
  run::BatchCut cut_;
  schedule::Schedule schedule_;
  std::vector<data::TokenId> sample_prompt_;
  std::unique_ptr<RunFolder> folder_;
  std::filesystem::path checkpoints_;
  std::unique_ptr<Reporter> reporter_;
  std::unique_ptr<BatchRecord> record_;  // null: not asked for
  Progression now_;
  std::optional<int64_t> saved_step_;
  std::optional<double> last_loss_;
  std::optional<double> whole_validation_loss_;  // with the parameters as they are, if it was measured
  int64_t timed_tokens_ = 0;
  double timed_seconds_ = 0;
};

}  // namespace weft::train
