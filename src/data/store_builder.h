// `weft data build`: text and JSON lines into a token store, by all cores.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace weft::data {

struct BuildOptions {
  std::vector<std::string> inputs;  // files and globs of text and JSON lines
  std::string tokenizer;            // as in data.tokenizer: "characters", "bytes" or a folder
  std::filesystem::path output;     // PREFIX of PREFIX.bin, PREFIX.idx and PREFIX.tokenizer
  bool bos = false;                 // the tokenizer's first token in front of each document
  int threads = 0;                  // 0: all cores
  bool progress = true;             // on standard error
};

struct BuiltStore {
  std::filesystem::path bin, idx, tokenizer;
  uint64_t documents = 0, tokens = 0, text_bytes = 0;
};

// Writes everything aside and renames it at the end. InputError: an input's mistake with file and line, inputs without
// a token, a file of the output that exists (it is not overwritten); Error: the disk's trouble. After either the output
// is as before.
[[nodiscard]] BuiltStore build_store(const BuildOptions& options);

}  // namespace weft::data
