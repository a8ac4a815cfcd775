// Files read with bounds, and files and folders that appear complete or not at all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/file_system.h"

namespace weft {

// The whole file, which may be a pipe. InputError: it is missing, cannot be read, is a folder, or has more than
// `maximum_bytes`.
[[nodiscard]] std::string read_file(const std::filesystem::path& path, size_t maximum_bytes = size_t{1} << 32);

// A file's bytes in memory, read only, loaded by the kernel as they are touched. Threads may share it.
// A file that somebody shortens while it is mapped ends the process (SIGBUS), so weft never shortens a file in place:
// it writes aside and renames.
class MappedFile {
 public:
  // InputError as for read_file, and for a device or pipe. An empty file has empty bytes.
  explicit MappedFile(const std::filesystem::path& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  [[nodiscard]] std::span<const std::byte> bytes() const { return bytes_; }
  [[nodiscard]] std::string_view text() const { return {reinterpret_cast<const char*>(bytes_.data()), bytes_.size()}; }
  [[nodiscard]] size_t size() const { return bytes_.size(); }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  // `length` bytes from `offset`; InputError that names the file and `what` if the file ends before.
  [[nodiscard]] std::span<const std::byte> at(uint64_t offset, uint64_t length, std::string_view what) const;
  // Tells the kernel that the file will be read from front to back.
  void advise_sequential() const;

 private:
  std::filesystem::path path_;
  std::span<const std::byte> bytes_;
};

// A file written aside (PATH.partial-PID in the same folder), and at commit() synced and renamed to its place: a
// reader, or whoever comes after a crash, sees the old file or the whole new one. Without commit() nothing remains.
// Errors as FileSystem's.
class AtomicFile {
 public:
  explicit AtomicFile(std::filesystem::path path, FileSystem& file_system = FileSystem::real());
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  ~AtomicFile();

  void write(std::span<const std::byte> data) { file_->write(data); }
  void write(std::string_view text) { file_->write(std::as_bytes(std::span(text))); }
  void commit();

 private:
  FileSystem& file_system_;
  std::filesystem::path path_, partial_;
  std::unique_ptr<WritableFile> file_;
};

void write_file(const std::filesystem::path& path, std::string_view contents,
                FileSystem& file_system = FileSystem::real());

// The same of a folder: files are made in partial(), which is PATH.partial-PID, and commit() syncs and renames it. PATH
// must not exist then (Error). Files made through create() must have been synced and closed before.
class AtomicFolder {
 public:
  explicit AtomicFolder(std::filesystem::path path, FileSystem& file_system = FileSystem::real());
  AtomicFolder(const AtomicFolder&) = delete;
  AtomicFolder& operator=(const AtomicFolder&) = delete;
  ~AtomicFolder();

  [[nodiscard]] const std::filesystem::path& partial() const { return partial_; }
  [[nodiscard]] std::unique_ptr<WritableFile> create(std::string_view name);
  // A small file, synced.
  void write(std::string_view name, std::string_view contents);
  void commit();

 private:
  FileSystem& file_system_;
  std::filesystem::path path_, partial_;
  bool open_ = false;
};

// Is this the name of something that AtomicFile or AtomicFolder left behind because its process was killed?
[[nodiscard]] bool is_partial(const std::filesystem::path& path);

}  // namespace weft
