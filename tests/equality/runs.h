// Small runs under any layout, their ranks as threads of this process.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "train/trainer.h"

namespace weft::equality {

// What a run came to, as rank 0 tells it.
struct Outcome {
  train::TrainSummary summary;
  std::vector<double> losses;          // a step
  std::vector<double> gradient_norms;  // a step
};

// "tensor=2 sequence=true": [parallel] of one row of a table; kind, chunks, micro_batches and the like are those of
// [schedule].
using Settings = std::string;

// Every kind of layout, alone and in products; all divide what strict mode needs divided.
inline const std::vector<Settings> kLayouts = {
    "micro_batches=3",
    "data=2",
    "data=3 micro_batches=2",
    "data=4 zero=1",
    "data=2 zero=2 micro_batches=2",
    "fsdp=2",
    "fsdp=3 micro_batches=2 whole_buckets=1",
    "data=2 fsdp=2 zero=2",
    "tensor=2",
    "tensor=3",
    "tensor=4 sequence=true",
    "tensor=2 sequence=true micro_batches=2",
    "context=2",
    "context=4",
    "context=2 tensor=2 sequence=true",
    "data=2 tensor=2",
    "fsdp=2 tensor=2 sequence=true",
    "fsdp=2 context=2 tensor=2 sequence=true zero=3",
};

// Pipelines, for models of four layers.
inline const std::vector<Settings> kPipelines = {
    "pipeline=2 micro_batches=3",
    "pipeline=2 kind=gpipe micro_batches=1",
    "pipeline=2 kind=bfs chunks=2 micro_batches=4",
    "pipeline=2 kind=interleaved chunks=2 micro_batches=3",
    "pipeline=4 micro_batches=2",
    "pipeline=2 data=2 zero=2 kind=bfs chunks=2 micro_batches=2",
    "pipeline=2 fsdp=2 kind=bfs chunks=2 micro_batches=2",
    "pipeline=2 tensor=2 sequence=true micro_batches=2",
    "pipeline=2 context=2 kind=interleaved chunks=2 micro_batches=2",
    "pipeline=2 data=5 micro_batches=2",
    "pipeline=2 kind=zb-h1 micro_batches=4",
    "pipeline=4 kind=zb-h2 micro_batches=5",
    "pipeline=2 kind=zbv micro_batches=3",
    "pipeline=2 kind=dualpipe-v micro_batches=4",
    "pipeline=2 fsdp=2 kind=zbv micro_batches=4",
    "recompute=true micro_batches=3",
    "tensor=2 sequence=true recompute=true micro_batches=2",
    "fsdp=2 context=2 recompute=true micro_batches=2",
    "pipeline=2 kind=zbv micro_batches=4 recompute=true",
    "pipeline=2 fsdp=2 kind=bfs chunks=2 micro_batches=3 recompute=true",
};

// A folder of runs that is removed with the object.
class Runs {
 public:
  Runs();
  ~Runs();

  // Runs `model` ("gpt" or "llama") with these settings. `assignments` as of --set.
  Outcome train(const std::string& model, const Settings& settings, std::vector<std::string> assignments = {});
  // The same in a folder of this name, gone on with where it was begun before.
  Outcome train_in(const std::string& name, const std::string& model, const Settings& settings,
                   std::vector<std::string> assignments, bool resume);
  // From now on every rank sleeps up to a millisecond before each of its calls to others.
  void sleep_at_random() { sleepy_ = true; }

 private:
  std::filesystem::path folder_;
  int count_ = 0;
  bool sleepy_ = false;
};

}  // namespace weft::equality
