// From what a user names to files of a known kind.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace weft::data {

enum class FileKind {
  kText,       // one document
  kJsonLines,  // a document a line: {"text": ...}
  kStore,      // tokens
};

// By the extension: .jsonl and .ndjson, .idx and .bin, and anything else is text. InputError for what is surely none of
// them: compressed files, Parquet.
[[nodiscard]] FileKind file_kind(const std::filesystem::path& path);

// The files that the pattern names, sorted by name; a Megatron store once, as its .idx. `*`, `?` and `[...]` are
// wildcards unless a file of exactly this name exists. InputError if there is no such file, or it is a folder.
[[nodiscard]] std::vector<std::filesystem::path> find_files(const std::string& pattern);

// The pattern with the first of the folders in front in which it names something (see make_paths_absolute).
[[nodiscard]] std::string absolute_pattern(const std::string& pattern,
                                           const std::vector<std::filesystem::path>& folders);

}  // namespace weft::data
