// A file system for tests that fills up or crashes where it is told to. What it passes on goes to a real folder.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/file_system.h"

namespace weft {

// The process would be gone now. Not an Error, so that no code treats it as a failure to report or clean up after.
class SimulatedCrash : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// One thread. Every call of FileSystem or WritableFile that changes something is an operation, numbered from 0.
class FaultyFileSystem final : public FileSystem {
 public:
  explicit FaultyFileSystem(FileSystem& below = FileSystem::real()) : below_(below) {}

  // After this many more bytes every write fails with Error "No space left on device", having written what fitted.
  void fill_after(uint64_t bytes) { bytes_left_ = bytes; }
  // The operation of this number throws SimulatedCrash (a write writes half of its data first), and so does everything
  // after it, clean-up included.
  void crash_at(uint64_t operation) { crash_at_ = operation; }
  [[nodiscard]] uint64_t operations() const { return operations_; }
  [[nodiscard]] bool crashed() const { return crashed_; }

  // Leaves what a power cut may leave at worst: bytes that were not synced are gone, and so are files, folders and
  // renames whose folder was not synced. (A killed process alone loses nothing: do not call it then.) Removals stay
  // done.
  void lose_unsynced();

  std::unique_ptr<WritableFile> create(const std::filesystem::path& path) override;
  void create_directory(const std::filesystem::path& path) override;
  void sync_directory(const std::filesystem::path& path) override;
  void rename(const std::filesystem::path& from, const std::filesystem::path& to) override;
  void remove_all(const std::filesystem::path& path) override;

 private:
  class File;
  struct Entry {  // a change of a folder that is not synced yet
    std::filesystem::path path, from;
    std::optional<std::string> replaced;  // the contents of the file that a rename replaced
  };

  // Counts the operation; true if it is the one that crashes.
  bool crash_now();
  [[noreturn]] void crash();
  void operation() {
    if (crash_now()) crash();
  }

  FileSystem& below_;
  uint64_t operations_ = 0;
  std::optional<uint64_t> bytes_left_, crash_at_;
  bool crashed_ = false;
  std::vector<Entry> entries_;
  std::map<std::filesystem::path, uint64_t> synced_sizes_;
};

}  // namespace weft
