#include "base/file_system.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/error.h"

namespace weft {

namespace {

[[noreturn]] void fail(std::string_view what, const std::filesystem::path& path, int error) {
  throw Error(fmt::format("cannot {} {}: {}", what, path.string(), std::strerror(error)));
}

class RealWritableFile final : public WritableFile {
 public:
  explicit RealWritableFile(const std::filesystem::path& path)
      : path_(path), descriptor_(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644)) {
    if (descriptor_ < 0) fail("create", path_, errno);
  }
  ~RealWritableFile() override {
    if (descriptor_ >= 0) ::close(descriptor_);
  }

  void write(std::span<const std::byte> data) override {
    while (!data.empty()) {
      const ssize_t written = ::write(descriptor_, data.data(), data.size());
      if (written < 0) {
        if (errno == EINTR) continue;
        fail("write", path_, errno);
      }
      data = data.subspan(static_cast<size_t>(written));
    }
  }

  void sync() override {
    if (::fsync(descriptor_) != 0) fail("sync", path_, errno);
  }

  void close() override {
    const int descriptor = descriptor_;
    descriptor_ = -1;
    if (::close(descriptor) != 0 && errno != EINTR) fail("close", path_, errno);
  }

 private:
  std::filesystem::path path_;
  int descriptor_;
};

class RealFileSystem final : public FileSystem {
 public:
  std::unique_ptr<WritableFile> create(const std::filesystem::path& path) override {
    return std::make_unique<RealWritableFile>(path);
  }

  void create_directory(const std::filesystem::path& path) override {
    if (::mkdir(path.c_str(), 0755) != 0) fail("create the folder", path, errno);
  }

  void sync_directory(const std::filesystem::path& path) override {
    const int descriptor = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor < 0) fail("open the folder", path, errno);
    const int failed = ::fsync(descriptor) != 0 ? errno : 0;
    ::close(descriptor);
    // Some network file systems cannot sync a folder and say so; there is nothing better to do on them.
    if (failed != 0 && failed != EINVAL) fail("sync the folder", path, failed);
  }

  void rename(const std::filesystem::path& from, const std::filesystem::path& to) override {
    if (::rename(from.c_str(), to.c_str()) != 0) {
      const int error = errno;
      fail(fmt::format("rename {} to", from.string()), to, error);
    }
  }

  void remove_all(const std::filesystem::path& path) override {
    std::error_code error;
    std::filesystem::remove_all(path, error);
    if (error) throw Error(fmt::format("cannot remove {}: {}", path.string(), error.message()));
  }
};

}  // namespace

FileSystem& FileSystem::real() {
  static RealFileSystem file_system;
  return file_system;
}

}  // namespace weft
