// What weft asks of a file system when it writes what must survive: few operations behind one interface, so that tests
// can fill the disk at any byte and crash at any operation (base/faulty_file_system.h).
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string_view>

namespace weft {

// All operations throw Error that names the file and the reason ("No space left on device").
class WritableFile {
 public:
  virtual ~WritableFile() = default;  // closes without an error
  // Appends; not buffered, so write in large pieces.
  virtual void write(std::span<const std::byte> data) = 0;
  void write(std::string_view text) { write(std::as_bytes(std::span(text))); }
  // Returns when the data is on the disk.
  virtual void sync() = 0;
  virtual void close() = 0;
};

class FileSystem {
 public:
  virtual ~FileSystem() = default;

  // Makes an empty file or empties the one that is there.
  [[nodiscard]] virtual std::unique_ptr<WritableFile> create(const std::filesystem::path& path) = 0;
  // The parent must exist, the folder must not.
  virtual void create_directory(const std::filesystem::path& path) = 0;
  // Returns when the folder's entries (not the files' contents) are on the disk.
  virtual void sync_directory(const std::filesystem::path& path) = 0;
  // A file replaces a file at once; a folder goes where nothing or an empty folder is.
  virtual void rename(const std::filesystem::path& from, const std::filesystem::path& to) = 0;
  // A file, or a folder with all it holds; nothing there is no error.
  virtual void remove_all(const std::filesystem::path& path) = 0;

  // The machine's own. Threads may share it.
  [[nodiscard]] static FileSystem& real();
};

}  // namespace weft
