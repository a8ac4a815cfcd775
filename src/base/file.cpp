#include "base/file.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include <fmt/format.h>

#include "base/check.h"
#include "base/error.h"

namespace weft {

namespace {

constexpr std::string_view kPartial = ".partial-";

// A file that is open for reading.
class OpenFile {
 public:
  explicit OpenFile(const std::filesystem::path& path)
      : path_(path), descriptor_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    if (descriptor_ < 0) throw InputError(fmt::format("cannot open {}: {}", path.string(), std::strerror(errno)));
    struct stat status {};
    if (::fstat(descriptor_, &status) != 0) {
      const int error = errno;
      ::close(descriptor_);
      throw InputError(fmt::format("cannot read {}: {}", path.string(), std::strerror(error)));
    }
    if (S_ISDIR(status.st_mode)) {
      ::close(descriptor_);
      throw InputError(fmt::format("{} is a folder, not a file", path.string()));
    }
    is_regular_ = S_ISREG(status.st_mode);
    if (is_regular_) size_ = static_cast<size_t>(status.st_size);
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  ~OpenFile() { ::close(descriptor_); }

  // At most `count` bytes; 0 at the end.
  [[nodiscard]] size_t read(char* to, size_t count) const {
    while (true) {
      const ssize_t done = ::read(descriptor_, to, count);
      if (done >= 0) return static_cast<size_t>(done);
      if (errno != EINTR) throw InputError(fmt::format("cannot read {}: {}", path_.string(), std::strerror(errno)));
    }
  }

  [[nodiscard]] int descriptor() const { return descriptor_; }
  [[nodiscard]] bool is_regular() const { return is_regular_; }
  // Of a regular file; a pipe does not say.
  [[nodiscard]] size_t size() const { return size_; }

 private:
  std::filesystem::path path_;
  int descriptor_;
  bool is_regular_ = false;
  size_t size_ = 0;
};

std::filesystem::path partial_path(std::filesystem::path path) {
  if (!path.has_filename()) path = path.parent_path();  // "folder/"
  path += fmt::format("{}{}", kPartial, ::getpid());
  return path;
}

std::filesystem::path parent_of(const std::filesystem::path& path) {
  const auto parent = path.parent_path();
  return parent.empty() ? std::filesystem::path(".") : parent;
}

}  // namespace

std::string read_file(const std::filesystem::path& path, size_t maximum_bytes) {
  const OpenFile file(path);
  if (file.size() > maximum_bytes) {
    throw InputError(
        fmt::format("{} has {} bytes, more than the {} allowed here", path.string(), file.size(), maximum_bytes));
  }
  constexpr size_t kChunk = size_t{1} << 16;  // what a pipe holds
  std::string contents;
  while (true) {
    const size_t before = contents.size();
    if (file.is_regular() && before == file.size()) break;
    contents.resize(file.is_regular() ? file.size() : before + kChunk);
    const size_t count = file.read(contents.data() + before, contents.size() - before);
    contents.resize(before + count);
    if (count == 0) break;
    if (contents.size() > maximum_bytes) {
      throw InputError(fmt::format("{} has more than the {} bytes allowed here", path.string(), maximum_bytes));
    }
  }
  return contents;
}

MappedFile::MappedFile(const std::filesystem::path& path) : path_(path) {
  const OpenFile file(path);
  if (!file.is_regular()) {
    throw InputError(
        fmt::format("{} is a device or pipe, which can be read only once; write it to a file first", path.string()));
  }
  if (file.size() == 0) return;
  void* address = ::mmap(nullptr, file.size(), PROT_READ, MAP_PRIVATE, file.descriptor(), 0);
  if (address == MAP_FAILED) throw InputError(fmt::format("cannot map {}: {}", path.string(), std::strerror(errno)));
  bytes_ = {static_cast<const std::byte*>(address), file.size()};
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)), bytes_(std::exchange(other.bytes_, {})) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

std::span<const std::byte> MappedFile::at(uint64_t offset, uint64_t length, std::string_view what) const {
  if (offset > bytes_.size() || length > bytes_.size() - offset) {
    throw InputError(fmt::format("{}: {} should be {} bytes at {}, but the file ends at {}", path_.string(), what,
                                 length, offset, bytes_.size()));
  }
  return bytes_.subspan(offset, length);
}

void MappedFile::advise_sequential() const {
  if (!bytes_.empty()) ::madvise(const_cast<std::byte*>(bytes_.data()), bytes_.size(), MADV_SEQUENTIAL);
}

AtomicFile::AtomicFile(std::filesystem::path path, FileSystem& file_system)
    : file_system_(file_system),
      path_(std::move(path)),
      partial_(partial_path(path_)),
      file_(file_system_.create(partial_)) {}

AtomicFile::~AtomicFile() {
  if (file_ == nullptr) return;
  file_.reset();
  try {
    file_system_.remove_all(partial_);
  } catch (const std::exception&) {
    // What cannot be removed now is recognised by its name later (is_partial).
  }
}

void AtomicFile::commit() {
  WEFT_CHECK(file_ != nullptr);
  file_->sync();
  file_->close();
  file_system_.rename(partial_, path_);
  file_.reset();
  file_system_.sync_directory(parent_of(path_));
}

void write_file(const std::filesystem::path& path, std::string_view contents, FileSystem& file_system) {
  AtomicFile file(path, file_system);
  file.write(contents);
  file.commit();
}

AtomicFolder::AtomicFolder(std::filesystem::path path, FileSystem& file_system)
    : file_system_(file_system), path_(std::move(path)), partial_(partial_path(path_)) {
  if (!path_.has_filename()) path_ = path_.parent_path();
  file_system_.remove_all(partial_);  // of an earlier process with this number
  file_system_.create_directory(partial_);
  open_ = true;
}

AtomicFolder::~AtomicFolder() {
  if (!open_) return;
  try {
    file_system_.remove_all(partial_);
  } catch (const std::exception&) {
    // As for AtomicFile.
  }
}

std::unique_ptr<WritableFile> AtomicFolder::create(std::string_view name) {
  return file_system_.create(partial_ / name);
}

void AtomicFolder::write(std::string_view name, std::string_view contents) {
  const auto file = create(name);
  file->write(contents);
  file->sync();
  file->close();
}

void AtomicFolder::commit() {
  WEFT_CHECK(open_);
  if (std::filesystem::exists(path_)) throw Error(fmt::format("cannot write {}: it exists already", path_.string()));
  file_system_.sync_directory(partial_);
  file_system_.rename(partial_, path_);
  open_ = false;
  file_system_.sync_directory(parent_of(path_));
}

bool is_partial(const std::filesystem::path& path) {
  const std::string name = path.filename().string();
  const size_t place = name.rfind(kPartial);
  if (place == std::string::npos || place == 0) return false;
  const std::string_view number = std::string_view(name).substr(place + kPartial.size());
  return !number.empty() && number.find_first_not_of("0123456789") == std::string_view::npos;
}

}  // namespace weft
