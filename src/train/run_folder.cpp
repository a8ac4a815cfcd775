#include "train/run_folder.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/file.h>
#include <system_error>
#include <unistd.h>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"

namespace weft::train {
namespace {

constexpr const char* kLockName = "lock";

// The process named in the lock file, for the message.
std::string holder(int lock) {
  std::array<char, 32> text{};
  const ssize_t length = pread(lock, text.data(), text.size() - 1, 0);
  std::string process(text.data(), length > 0 ? static_cast<size_t>(length) : 0);
  while (!process.empty() && process.back() == '\n') process.pop_back();
  return process.empty() ? "another process" : "process " + process;
}

int take_lock(const std::filesystem::path& directory) {
  const std::filesystem::path path = directory / kLockName;
  const int lock = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (lock < 0) throw Error(fmt::format("{}: {}", path.string(), std::strerror(errno)));
  if (flock(lock, LOCK_EX | LOCK_NB) != 0) {
    const std::string who = holder(lock);
    close(lock);
    throw InputError(fmt::format("{}: the run is in use by {}", directory.string(), who));
  }
  const std::string process = std::to_string(getpid()) + "\n";
  if (ftruncate(lock, 0) != 0 || pwrite(lock, process.data(), process.size(), 0) < 0) {
    const int reason = errno;
    close(lock);
    throw Error(fmt::format("{}: {}", path.string(), std::strerror(reason)));
  }
  return lock;
}

bool holds_only_the_lock(const std::filesystem::path& directory) {
  std::error_code failure;
  for (const auto& entry : std::filesystem::directory_iterator(directory, failure)) {
    if (entry.path().filename() != kLockName) return false;
  }
  return !failure;
}

}  // namespace

RunFolder::RunFolder(std::filesystem::path directory, Start start) : directory_(std::move(directory)) {
  std::error_code failure;
  if (start == Start::kResume && !std::filesystem::is_regular_file(configuration(), failure)) {
    throw InputError(fmt::format("{}: nothing to resume: there is no config.toml", directory_.string()));
  }
  if (std::filesystem::exists(directory_, failure) && !std::filesystem::is_directory(directory_, failure)) {
    throw InputError(fmt::format("{}: is not a folder", directory_.string()));
  }
  std::filesystem::create_directories(directory_, failure);
  if (failure) throw Error(fmt::format("{}: cannot be made: {}", directory_.string(), failure.message()));
  lock_ = take_lock(directory_);
  if (start == Start::kNew && !holds_only_the_lock(directory_)) {
    close(lock_);
    throw InputError(
        fmt::format("{}: exists and is not empty; --resume continues the run in it, --out DIR takes another "
                    "folder",
                    directory_.string()));
  }
}

RunFolder::~RunFolder() {
  std::error_code ignored;  // what cannot be removed stays, and is no obstacle
  if (holds_only_the_lock(directory_)) {
    std::filesystem::remove(directory_ / kLockName, ignored);
    std::filesystem::remove(directory_, ignored);
  }
  close(lock_);
}

}  // namespace weft::train
