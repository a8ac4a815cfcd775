#include "run/run_node.h"

#include <algorithm>
#include <fnmatch.h>

#include <fmt/format.h>

namespace weft::run {

using config::FieldList;
using config::Hint;

namespace {

// Enough for any run, and no sum or product of two of them leaves 63 bits.
constexpr double kGreatestCount = 1e9;
constexpr double kGreatestSteps = 1e12;

}  // namespace

void TrainNode::fields(FieldList& list) {
  list.add("steps", steps, Hint::kOptional, "steps", "optimizer steps of the whole run")
      .at_least(1)
      .at_most(kGreatestSteps);
  list.add("global_batch", global_batch, Hint::kCore, "sequences", "sequences a step")
      .at_least(1)
      .at_most(kGreatestCount);
  list.add("micro_batch", micro_batch, Hint::kPerformance, "sequences",
           "sequences computed at once; unset: follows from schedule.micro_batches")
      .at_least(1)
      .at_most(kGreatestCount);
  list.add("seed", seed, Hint::kCore, "", "of initial values, sample order and dropout").at_least(0);
  list.add("precision", precision, Hint::kCore, "", "of activations and products; parameters stay fp32")
      .one_of({"fp32", "bf16"});
  list.add("frozen", frozen, Hint::kCore, "", "patterns of parameter paths that do not learn");
  list.add("initial_weights", initial_weights, Hint::kCore, "",
           "a Hugging Face directory, a run or a checkpoint to start from; empty: random values");
  list.add("threads", threads, Hint::kPerformance, "threads", "of the products; 0: one a core")
      .at_least(0)
      .at_most(4096);
  list.add("strict", strict, Hint::kPerformance, "",
           "the same bits under every layout and any cut into micro-batches; slower");
  list.add("record_batches", record_batches, Hint::kOptional, "",
           "write the tokens of every step to batches.jsonl in the run's folder");
}

void ScheduleNode::fields(FieldList& list) {
  list.add("kind", order, Hint::kPerformance, "",
           "the order of a step's work: a name that `weft schedule` knows, or a CSV file");
  list.add("chunks", chunks, Hint::kPerformance, "stages",
           "of each pipeline role; unset: 2 for zbv, v-half, v-min and dualpipe-v, else 1")
      .at_least(1)
      .at_most(kGreatestCount);
  list.add("micro_batches", micro_batches, Hint::kPerformance, "",
           "micro-batches a step; unset: follows from train.micro_batch, 1 if that is unset too")
      .at_least(1)
      .at_most(kGreatestCount);
  list.add("run", run, Hint::kPerformance, "micro-batches",
           "interleaved: how many run through a chunk in a row; 0: as many as pipeline roles")
      .at_least(0)
      .at_most(kGreatestCount);
  list.add("rounds", rounds, Hint::kPerformance, "", "bfs: parts that a step's micro-batches are divided into")
      .at_least(1)
      .at_most(kGreatestCount);
  list.add("recompute", recompute, Hint::kPerformance, "",
           "keep a stage's input alone, and run its layers forward once more in front of their backward");
  list.add("memory", memory, Hint::kPerformance, "micro-batches",
           "zb-auto: activations that a role may hold; 0: as many as pipeline roles")
      .at_least(0);
}

void ValidationNode::fields(FieldList& list) {
  list.add("every", every, Hint::kOptional, "steps", "between validation losses; 0: only at the end").at_least(0);
  list.add("tokens", tokens, Hint::kOptional, "tokens",
           "of the validation part that a periodic one reads; 0: all. The last one always reads all")
      .at_least(0);
}

void SamplesNode::fields(FieldList& list) {
  list.add("every", every, Hint::kOptional, "steps", "between samples of text; 0: none").at_least(0);
  list.add("prompt", prompt, Hint::kOptional, "",
           "what the samples continue; empty: a line break or the beginning of a text");
  list.add("tokens", tokens, Hint::kOptional, "tokens", "length of a sample").at_least(1).at_most(1 << 20);
  list.add("temperature", temperature, Hint::kOptional, "", "0: always the likeliest token").at_least(0);
}

void CheckpointNode::fields(FieldList& list) {
  list.add("every", every, Hint::kOptional, "steps", "between checkpoints; 0: only at the end").at_least(0);
  list.add("keep", keep, Hint::kOptional, "", "newest checkpoints kept, beside the best").at_least(1);
  list.add("initial", initial, Hint::kOptional, "", "one of step 0 as well, before anything is learnt");
  list.add("directory", directory, Hint::kOptional, "", "empty: checkpoints/ in the run's folder");
}

void RunSettings::fields(FieldList& list) {
  list.add("name", name, Hint::kOptional, "", "empty: the run file's name");
  list.add("directory", directory, Hint::kOptional, "", "the run's folder; empty: runs/<name>");
  list.add("trace", trace, Hint::kOptional, "",
           "the step whose actions every rank times, for trace.json in the run's folder; 0: none")
      .at_least(0);
}

void RunNode::fields(FieldList& list) {
  list.add("model", model, Hint::kArchitecture, "what is trained");
  list.add("parametrisation", parametrisation, Hint::kCore,
           "how initial values and rates follow from a parameter's class");
  list.add("data", data, Hint::kCore, "what it learns from");
  list.add("train", train, Hint::kCore, "how long, how much at once, in which precision");
  list.add("optimizer", optimizer, Hint::kCore, "what changes the parameters");
  list.add("phases", phases, Hint::kCore, "the learning rate over the steps");
  list.add("parallel", parallel, Hint::kPerformance, "how ranks divide the work");
  list.add("schedule", schedule, Hint::kPerformance, "how a step is cut");
  list.add("validation", validation, Hint::kOptional, "losses on text that is not learnt from");
  list.add("samples", samples, Hint::kOptional, "text written while training");
  list.add("checkpoint", checkpoint, Hint::kOptional, "what is kept of the run");
  list.add("comm", comm, Hint::kPerformance, "how ranks reach each other");
  list.add("run", run, Hint::kOptional, "its name and folder");
}

bool frozen(const TrainNode& train, const std::string& path) {
  return std::any_of(train.frozen.begin(), train.frozen.end(),
                     [&](const std::string& pattern) { return fnmatch(pattern.c_str(), path.c_str(), 0) == 0; });
}

}  // namespace weft::run
