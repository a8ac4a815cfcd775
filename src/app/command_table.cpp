#include "app/commands.h"
#include "app/schedule_definitions.h"

namespace weft::app {
namespace {

OptionDefinition flag(std::string name, std::string text) {
  return {.name = std::move(name), .placeholder = "", .text = std::move(text), .type = OptionType::kFlag};
}

const OptionDefinition kSet = {.name = "--set",
                               .placeholder = "KEY=VALUE",
                               .text = "change a key of the run file, as train.steps=100; VALUE is TOML or a text",
                               .repeated = true};
const OptionDefinition kPrecision = {.name = "--precision",
                                     .placeholder = "P",
                                     .text = "the numbers to compute in",
                                     .standard = "fp32",
                                     .words = {"fp32", "bf16"}};
const OptionDefinition kThreads = {.name = "--threads",
                                   .placeholder = "N",
                                   .text = "processor threads to use; all cores if not given",
                                   .type = OptionType::kInteger,
                                   .least = 1,
                                   .greatest = 4096};
const ArgumentDefinition kModel = {"DIR", "a run, a checkpoint or a Hugging Face directory"};
const ArgumentDefinition kRunFile = {"RUN.toml", "the run file"};

CommandDefinition train() {
  return {
      .name = "train",
      .text = "train a model as a run file says",
      .details =
          "The run's folder gets the resolved configuration, metrics.jsonl, TensorBoard events and checkpoints. "
          "Ctrl-C saves a checkpoint and stops; --resume goes on from the newest one.",
      .example = "weft train recipes/shakespeare.toml --set 'data.sources=[\"my.txt\"]' --out runs/mine",
      .where = Where::kEngine,
      .arguments = {kRunFile},
      .options = {{.name = "--steps",
                   .placeholder = "N",
                   .text = "stop after this many steps in all (train.steps)",
                   .type = OptionType::kInteger,
                   .least = 1},
                  {.name = "--seed",
                   .placeholder = "S",
                   .text = "the seed of every random number (train.seed)",
                   .type = OptionType::kInteger,
                   .least = 0},
                  {.name = "--out", .placeholder = "DIR", .text = "the run's folder (run.directory)"},
                  flag("--resume", "go on from the folder's newest complete checkpoint"),
                  flag("--strict", "the same bits under every layout; slower (train.strict)"),
                  {.name = "--branch",
                   .placeholder = "STEP",
                   .text = "start a new run from this step of the run --from, with other settings",
                   .type = OptionType::kInteger,
                   .least = 0},
                  {.name = "--from", .placeholder = "RUN", .text = "the folder of the run to branch from"},
                  kSet},
  };
}

CommandDefinition launch() {
  return {
      .name = "launch",
      .text = "train on several ranks of this machine",
      .details =
          "Ranks are processes, or threads of one process. What rank 0 prints is shown; the others have logs. If a "
          "rank fails, all end, with its exit code. On many machines torchrun, srun or mpirun start `weft train` "
          "themselves.",
      .example = "weft launch --ranks 2 -- train recipes/shakespeare.toml --set parallel.data=2",
      .arguments = {{.name = "-- train RUN.toml ...", .text = "the command, as without launch", .verbatim = true}},
      .options = {{.name = "--ranks",
                   .placeholder = "N",
                   .text = "how many",
                   .type = OptionType::kInteger,
                   .least = 1,
                   .greatest = 4096,
                   .required = true},
                  flag("--threads", "ranks are threads of one process"),
                  {.name = "--log-dir",
                   .placeholder = "DIR",
                   .text = "where rank-N.log of all ranks but the first go; if not given, a folder that is removed "
                           "unless a rank fails"},
                  {.name = "--port",
                   .placeholder = "P",
                   .text = "where the ranks meet; a free one if not given",
                   .type = OptionType::kInteger,
                   .least = 1,
                   .greatest = 65535}},
  };
}

CommandDefinition generate() {
  return {
      .name = "generate",
      .text = "continue a text with a trained model",
      .details =
          "The text appears as it is made. Special tokens found in the prompt are matched; none is added unless "
          "--special is given.",
      .example = "weft generate runs/shakespeare --prompt 'ROMEO:' --max-tokens 200",
      .where = Where::kEngine,
      .arguments = {kModel},
      .options = {{.name = "--prompt", .placeholder = "TEXT", .text = "the text to continue", .choice = "prompt"},
                  {.name = "--token-ids",
                   .placeholder = "1,2,3",
                   .text = "the tokens to continue; needs no tokenizer",
                   .type = OptionType::kIntegers,
                   .least = 0,
                   .choice = "prompt"},
                  {.name = "--max-tokens",
                   .placeholder = "N",
                   .text = "how many tokens to make at most",
                   .type = OptionType::kInteger,
                   .standard = "256",
                   .least = 0},
                  {.name = "--temperature",
                   .placeholder = "T",
                   .text = "divides the logits; 0 takes the likeliest token",
                   .type = OptionType::kNumber,
                   .standard = "0.8",
                   .least = 0},
                  {.name = "--top-k",
                   .placeholder = "K",
                   .text = "choose among the K likeliest tokens; 0: among all",
                   .type = OptionType::kInteger,
                   .standard = "0",
                   .least = 0},
                  {.name = "--top-p",
                   .placeholder = "P",
                   .text = "choose among the likeliest tokens that hold this much of the probability",
                   .type = OptionType::kNumber,
                   .standard = "1",
                   .least = 0,
                   .greatest = 1},
                  {.name = "--repetition-penalty",
                   .placeholder = "R",
                   .text = "weakens tokens that were seen before; 1: not at all",
                   .type = OptionType::kNumber,
                   .standard = "1",
                   .least = 0.01,
                   .greatest = 100},
                  {.name = "--seed",
                   .placeholder = "S",
                   .text = "the seed of the choices",
                   .type = OptionType::kInteger,
                   .standard = "1",
                   .least = 0},
                  flag("--ignore-eos", "do not stop at the end-of-text token"),
                  flag("--special", "the tokenizer's template adds its special tokens to the prompt"),
                  kPrecision,
                  kThreads},
  };
}

CommandDefinition eval() {
  return {
      .name = "eval",
      .text = "the loss of a model on given tokens or text",
      .details =
          "TEXT is cut into consecutive windows; the first token of each is not predicted, and a shorter last "
          "window is included. FILE.json is {\"ids\": [[...], ...]}.",
      .example = "weft eval runs/shakespeare --data my.txt",
      .where = Where::kEngine,
      .arguments = {kModel},
      .options = {{.name = "--tokens", .placeholder = "FILE.json", .text = "rows of token ids", .choice = "data"},
                  {.name = "--data", .placeholder = "TEXT", .text = "a text file", .choice = "data"},
                  {.name = "--context",
                   .placeholder = "N",
                   .text = "tokens a window; the run's or the model's own if not given",
                   .type = OptionType::kInteger,
                   .least = 2},
                  {.name = "--logits",
                   .placeholder = "OUT.safetensors",
                   .text = "write the logits of every row, fp32 (length, vocabulary), as logits.0, logits.1, ..."},
                  {.name = "--gradients",
                   .placeholder = "OUT.safetensors",
                   .text = "write the loss's gradient by every parameter, named and laid out as in a Hugging Face "
                           "directory"},
                  flag("--special", "the tokenizer's template adds its special tokens to each text"),
                  kPrecision,
                  kThreads},
  };
}

CommandDefinition convert() {
  return {
      .name = "convert",
      .text = "convert a model from and to a Hugging Face directory",
      .details =
          "DST must not exist. What is written for Hugging Face holds config.json, generation_config.json, "
          "model.safetensors and the tokenizer's files.",
      .example = "weft convert runs/shakespeare exported --to hf --dtype bf16",
      .where = Where::kEngine,
      .arguments = {{"SRC", kModel.text}, {"DST", "the folder to write"}},
      .options = {{.name = "--to",
                   .placeholder = "FORMAT",
                   .text = "what to write",
                   .standard = "hf",
                   .words = {"hf", "weft"}},
                  {.name = "--dtype",
                   .placeholder = "D",
                   .text = "the type of the written weights",
                   .standard = "fp32",
                   .words = {"fp32", "bf16", "fp16"}},
                  {.name = "--max-shard-mb",
                   .placeholder = "MB",
                   .text = "cut the weights into files of at most this many megabytes",
                   .type = OptionType::kNumber,
                   .least = 0.001}},
  };
}

CommandDefinition explain() {
  return {
      .name = "explain",
      .text = "every setting of a run: its value, its meaning, where it came from",
      .details = "Nothing is trained and no weight is read.",
      .example = "weft explain recipes/gpt2-124m.toml --parameters",
      .arguments = {kRunFile},
      .options = {flag("--parameters",
                       "the table of parameters: path, shape, class, initial values, rate, expected update"),
                  kSet},
  };
}

CommandDefinition tokenize() {
  return {
      .name = "tokenize",
      .text = "tokens of the texts on standard input",
      .details =
          "Reads lines of JSON {\"text\": S} and answers each with a line {\"ids\": [...], \"decoded\": S}. "
          "Special tokens found in the text are matched; none is added unless --special is given.",
      .example = "echo '{\"text\": \"Hello\"}' | weft tokenize --tokenizer DIR",
      .arguments = {},
      .options = {{.name = "--tokenizer",
                   .placeholder = "DIR",
                   .text = "a folder with tokenizer.json or vocab.json and merges.txt, a file, or \"bytes\"",
                   .required = true},
                  flag("--special", "the tokenizer's template adds its special tokens")},
  };
}

CommandDefinition data_build() {
  return {
      .name = "data build",
      .text = "tokenize text into a store to train on",
      .details =
          "INPUT is a file or a quoted glob: plain text is one document a file, .jsonl a document a line ({\"text\": "
          "S}). Writes PREFIX.bin and PREFIX.idx, which Megatron reads too, and the tokenizer as PREFIX.tokenizer. "
          "Each "
          "document ends with the tokenizer's end-of-text token.",
      .example = "weft data build 'corpus/*.jsonl' --tokenizer gpt2 --out corpus",
      .arguments = {{"INPUT", "files or globs of text and JSON lines", true}},
      .options = {{.name = "--tokenizer",
                   .placeholder = "T",
                   .text = "a folder with tokenizer.json or vocab.json and merges.txt, \"bytes\", or \"characters\"",
                   .required = true},
                  {.name = "--out",
                   .placeholder = "PREFIX",
                   .text = "what the files are called; none may exist",
                   .required = true},
                  flag("--bos", "put the tokenizer's first token in front of each document"),
                  kThreads},
  };
}

CommandDefinition data_samples() {
  return {
      .name = "data samples",
      .text = "what a run trains on: its samples, in order",
      .details =
          "Step s of a run takes the samples s * global_batch to (s + 1) * global_batch - 1; where phases change the "
          "batch, each step goes on behind the last. With --json a line a sample.",
      .example = "weft data samples recipes/shakespeare.toml --first 0 --count 3",
      .arguments = {kRunFile},
      .options = {kSet,
                  {.name = "--first",
                   .placeholder = "N",
                   .text = "the global number of the first sample to show",
                   .type = OptionType::kInteger,
                   .standard = "0",
                   .least = 0},
                  {.name = "--count",
                   .placeholder = "N",
                   .text = "how many to show",
                   .type = OptionType::kInteger,
                   .standard = "1",
                   .least = 0}},
  };
}

CommandDefinition checkpoint_list() {
  return {
      .name = "checkpoint list",
      .text = "the checkpoints of a run",
      .details = "",
      .example = "weft checkpoint list runs/shakespeare",
      .arguments = {{"DIR", "the run's folder"}},
      .options = {},
  };
}

CommandDefinition checkpoint_verify() {
  return {
      .name = "checkpoint verify",
      .text = "check every byte of a run's checkpoints, or of one",
      .details = "Reads all files and compares their checksums with the manifest's. Exit code 2 if one is damaged.",
      .example = "weft checkpoint verify runs/shakespeare",
      .arguments = {{"DIR", "the run's folder or one checkpoint's"}},
      .options = {},
  };
}

CommandDefinition checkpoint_reshard() {
  return {
      .name = "checkpoint reshard",
      .text = "write a checkpoint of many ranks again, with whole tensors",
      .details =
          "Any number of ranks reads what any number wrote; this is for programs that want each tensor in one "
          "piece, in parameters.safetensors and optimizer.safetensors.",
      .example = "weft checkpoint reshard runs/shakespeare --out whole",
      .arguments = {{"DIR", "a checkpoint's folder, or a run's: its newest checkpoint"}},
      .options = {{.name = "--out",
                   .placeholder = "DIR",
                   .text = "the new checkpoint's folder, which does not exist yet",
                   .required = true},
                  {.name = "--ranks",
                   .placeholder = "N",
                   .text = "write it as N ranks do that hold near-equal parts of each tensor",
                   .type = OptionType::kInteger,
                   .standard = "1",
                   .least = 1,
                   .greatest = 1024}},
  };
}

CommandDefinition doctor() {
  return {
      .name = "doctor",
      .text = "measure this machine and say what is wrong with it",
      .details = "Speed of matrix products in fp32 and bf16, memory bandwidth, what LibTorch can use here.",
      .example = "weft doctor",
      .where = Where::kEngine,
      .arguments = {},
      .options = {kThreads},
  };
}

}  // namespace

const std::vector<CommandDefinition>& commands() {
  static const std::vector<CommandDefinition> kCommands = {
      train(),
      launch(),
      generate(),
      eval(),
      convert(),
      explain(),
      tokenize(),
      data_build(),
      data_samples(),
      checkpoint_list(),
      checkpoint_verify(),
      checkpoint_reshard(),
      schedule(),
      schedule_check(),
      doctor(),
  };
  return kCommands;
}

}  // namespace weft::app
