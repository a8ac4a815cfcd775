#include "data/source_files.h"

#include <algorithm>
#include <array>
#include <glob.h>

#include <fmt/format.h>

#include "base/check.h"
#include "base/error.h"

namespace weft::data {

namespace {

namespace fs = std::filesystem;

// As glob(3): sorted by byte values (the C locale, which weft keeps), nothing for no match.
std::vector<fs::path> matches(const std::string& pattern) {
  if (fs::exists(pattern)) return {pattern};
  glob_t found{};
  const int result = ::glob(pattern.c_str(), GLOB_ERR, nullptr, &found);
  std::vector<fs::path> paths(found.gl_pathv, found.gl_pathv + (result == 0 ? found.gl_pathc : 0));
  ::globfree(&found);
  if (result != 0 && result != GLOB_NOMATCH)
    throw InputError(fmt::format("cannot look for {}: a folder cannot be read", pattern));
  return paths;
}

}  // namespace

FileKind file_kind(const fs::path& path) {
  const std::string extension = path.extension().string();
  constexpr std::array<std::string_view, 6> kUnreadable = {".gz", ".zst", ".xz", ".bz2", ".zip", ".parquet"};
  if (std::find(kUnreadable.begin(), kUnreadable.end(), extension) != kUnreadable.end()) {
    throw InputError(fmt::format("{}: weft does not read {} files; unpack it into text or JSON lines first",
                                 path.string(), extension));
  }
  if (extension == ".jsonl" || extension == ".ndjson") return FileKind::kJsonLines;
  if (extension == ".idx" || extension == ".bin") return FileKind::kStore;
  return FileKind::kText;
}

std::vector<fs::path> find_files(const std::string& pattern) {
  std::vector<fs::path> files = matches(pattern);
  // A glob over a folder of stores finds both files of each.
  for (fs::path& file : files) {
    if (file.extension() != ".bin") continue;
    fs::path index = file;
    if (fs::exists(index.replace_extension(".idx"))) file = index;
  }
  files.erase(std::unique(files.begin(), files.end()), files.end());
  if (files.empty()) throw InputError(fmt::format("no file is named by {}", pattern));
  const bool one = files.size() == 1;
  std::erase_if(files, [](const fs::path& file) { return fs::is_directory(file); });
  if (files.empty()) {
    throw InputError(one ? fmt::format("{0} is a folder; name the files in it, for instance {0}/*.txt", pattern)
                         : fmt::format("{} names folders only", pattern));
  }
  return files;
}

std::string absolute_pattern(const std::string& pattern, const std::vector<fs::path>& folders) {
  WEFT_CHECK(!folders.empty());
  if (fs::path(pattern).is_absolute()) return pattern;
  for (const fs::path& folder : folders) {
    const std::string candidate = (fs::absolute(folder) / pattern).lexically_normal().string();
    if (!matches(candidate).empty()) return candidate;
  }
  return (fs::absolute(folders.front()) / pattern).lexically_normal().string();
}

}  // namespace weft::data
