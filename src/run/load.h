// From a run file to a checked tree.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "config/toml.h"
#include "config/tree.h"
#include "run/run_node.h"

namespace weft::run {

struct LoadedRun {
  RunNode node;
  config::Origins origins;            // where each value that is not a default came from
  std::vector<std::string> warnings;  // what was found and not used, a sentence each
};

// Reads RUN.toml with its base files and assignments ("train.steps=100"), makes the model from its family's keys or
// from a Hugging Face directory, makes paths absolute (looked for in the working directory, then beside the file) and
// checks what can be checked without the data. The vocabulary may still be unset (set_vocabulary). Throws InputError.
[[nodiscard]] LoadedRun load_run(const std::filesystem::path& file, const std::vector<std::string>& assignments);

// Gives the model the tokenizer's vocabulary where it has none, and refuses one that is smaller. Ends with the checks
// that need it.
void set_vocabulary(RunNode& run, int64_t tokenizer_vocabulary);

// What the sections demand of each other. Throws InputError naming the fields.
void check(const RunNode& run);

// The fields that a resumed run may not change (architecture and core), with both values. Empty: it may go on.
[[nodiscard]] std::vector<config::Difference> refused_changes(const RunNode& before, const RunNode& after);
// The same as one message, each field on a line of its own; empty if nothing is refused.
[[nodiscard]] std::string refusal(const RunNode& before, const RunNode& after);

}  // namespace weft::run
