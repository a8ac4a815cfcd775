// The tree of a run: every section of a run file. docs/commands.md fixes the names.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/node.h"
#include "data/data_node.h"
#include "model/nodes.h"
#include "recipe/optimizer_node.h"
#include "recipe/parametrisation.h"
#include "recipe/phase.h"
#include "run/parallel_node.h"

namespace weft::run {

struct TrainNode : config::Node {
  WEFT_NODE(TrainNode, "train")
  void fields(config::FieldList& list) override;

  int64_t steps = 1000;
  int64_t global_batch = 1;            // sequences
  std::optional<int64_t> micro_batch;  // sequences; unset: follows from schedule.micro_batches
  int64_t seed = 1;
  std::string precision = "fp32";
  std::vector<std::string> frozen;  // patterns on parameter paths, with * and ?
  std::string initial_weights;      // a Hugging Face directory, a run or a checkpoint; empty: random
  int64_t threads = 0;              // 0: one a core
  bool strict = false;              // the same bits under every layout
  bool record_batches = false;      // batches.jsonl in the run's folder
};

struct ScheduleNode : config::Node {
  WEFT_NODE(ScheduleNode, "schedule")
  void fields(config::FieldList& list) override;

  // A name of schedule/generate.h, or a CSV file (docs/formats/schedule-csv.md).
  std::string order = "1f1b";
  std::optional<int64_t> chunks;         // stages a pipeline role; unset: as many as the kind has, else 1
  std::optional<int64_t> micro_batches;  // a step; unset: follows from train.micro_batch, 1 if that is unset too
  int64_t run = 0;                       // interleaved: micro-batches in a row through a chunk, 0: as many as roles
  int64_t rounds = 1;                    // bfs: parts of the micro-batches, one after the other
  bool recompute = false;  // layers run forward once more in front of their backward, and keep their input
  double memory = 0;       // zb-auto: activations of a micro-batch through a role's layers, 0: as many as roles
};

struct ValidationNode : config::Node {
  WEFT_NODE(ValidationNode, "validation")
  void fields(config::FieldList& list) override;

  int64_t every = 250;
  int64_t tokens = 1 << 16;
};

struct SamplesNode : config::Node {
  WEFT_NODE(SamplesNode, "samples")
  void fields(config::FieldList& list) override;

  int64_t every = 0;
  std::string prompt;
  int64_t tokens = 100;
  double temperature = 0.8;
};

struct CheckpointNode : config::Node {
  WEFT_NODE(CheckpointNode, "checkpoint")
  void fields(config::FieldList& list) override;

  int64_t every = 1000;
  int64_t keep = 2;
  bool initial = false;   // one of step 0 as well
  std::string directory;  // empty: checkpoints/ in the run's folder
};

struct RunSettings : config::Node {
  WEFT_NODE(RunSettings, "run")
  void fields(config::FieldList& list) override;

  std::string name;       // empty: the run file's name
  std::string directory;  // empty: runs/<name>
  int64_t trace = 0;      // the step whose actions are timed, 0: none
};

struct RunNode : config::Node {
  WEFT_NODE(RunNode, "weft")
  void fields(config::FieldList& list) override;

  model::ModelNode model;
  config::Slot<recipe::ParametrisationNode> parametrisation = recipe::StandardParametrisation();
  data::DataNode data;
  TrainNode train;
  config::Slot<recipe::OptimizerNode> optimizer = recipe::AdamW();
  recipe::Phases phases;
  ParallelNode parallel;
  ScheduleNode schedule;
  ValidationNode validation;
  SamplesNode samples;
  CheckpointNode checkpoint;
  CommNode comm;
  RunSettings run;
};

// Whether a parameter's path matches one of the patterns of train.frozen: * stands for any characters, ? for one.
[[nodiscard]] bool frozen(const TrainNode& train, const std::string& path);

}  // namespace weft::run
