// The folder of a run: who may use it, and what lies where (docs/formats/run-folder.md).
#pragma once

#include <filesystem>
#include <string>

namespace weft::train {

// Holds the run's lock while it lives, so that a second process is kept out. The lock is the kernel's: it ends with the
// process, however that ends.
class RunFolder {
 public:
  enum class Start { kNew, kResume };

  // kNew makes the folder and those above it. InputError: kNew and there is something in it; kResume and it is no run;
  // another process has it (named). Error: it cannot be made.
  RunFolder(std::filesystem::path directory, Start start);
  // Removes a folder in which nothing was written.
  ~RunFolder();
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  [[nodiscard]] const std::filesystem::path& directory() const { return directory_; }
  [[nodiscard]] std::filesystem::path configuration() const { return directory_ / "config.toml"; }
  [[nodiscard]] std::filesystem::path metrics() const { return directory_ / "metrics.jsonl"; }
  [[nodiscard]] std::filesystem::path events() const { return directory_ / "events.jsonl"; }
  [[nodiscard]] std::filesystem::path checkpoints() const { return directory_ / "checkpoints"; }

 private:
  std::filesystem::path directory_;
  int lock_ = -1;
};

}  // namespace weft::train
