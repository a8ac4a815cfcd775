#include "base/faulty_file_system.h"

#include <cerrno>
#include <cstring>

#include <fmt/format.h>

#include "base/error.h"
#include "base/file.h"

namespace weft {

bool FaultyFileSystem::crash_now() {
  if (crashed_) crash();
  return operations_++ == crash_at_;
}

void FaultyFileSystem::crash() {
  crashed_ = true;
  throw SimulatedCrash(fmt::format("crash at operation {}", operations_ - 1));
}

class FaultyFileSystem::File final : public WritableFile {
 public:
  File(FaultyFileSystem& owner, std::filesystem::path path)
      : owner_(owner), path_(std::move(path)), below_(owner.below_.create(path_)) {}

  void write(std::span<const std::byte> data) override {
    const bool crash = owner_.crash_now();
    if (crash) data = data.first(data.size() / 2);
    const bool full = owner_.bytes_left_ && *owner_.bytes_left_ < data.size();
    if (full) data = data.first(static_cast<size_t>(*owner_.bytes_left_));
    below_->write(data);
    size_ += data.size();
    if (owner_.bytes_left_) *owner_.bytes_left_ -= data.size();
    if (crash) owner_.crash();
    if (full) throw Error(fmt::format("cannot write {}: {}", path_.string(), std::strerror(ENOSPC)));
  }

  void sync() override {
    owner_.operation();
    below_->sync();
    owner_.synced_sizes_[path_] = size_;
  }

  void close() override {
    owner_.operation();
    below_->close();
  }

 private:
  FaultyFileSystem& owner_;
  std::filesystem::path path_;
  std::unique_ptr<WritableFile> below_;
  uint64_t size_ = 0;
};

std::unique_ptr<WritableFile> FaultyFileSystem::create(const std::filesystem::path& path) {
  operation();
  if (!std::filesystem::exists(path)) entries_.push_back({path, {}, {}});
  synced_sizes_[path] = 0;
  return std::make_unique<File>(*this, path);
}

void FaultyFileSystem::create_directory(const std::filesystem::path& path) {
  operation();
  below_.create_directory(path);
  entries_.push_back({path, {}, {}});
}

void FaultyFileSystem::sync_directory(const std::filesystem::path& path) {
  operation();
  below_.sync_directory(path);
  std::erase_if(entries_, [&](const Entry& entry) { return entry.path.parent_path() == path; });
}

void FaultyFileSystem::rename(const std::filesystem::path& from, const std::filesystem::path& to) {
  operation();
  Entry entry{to, from, {}};
  if (std::filesystem::is_regular_file(to)) entry.replaced = read_file(to);
  below_.rename(from, to);
  // What was known of the old path, and of paths below it, now holds for the new one.
  const auto moved = [&](const std::filesystem::path& path) {
    const auto below = path.lexically_relative(from);
    return path == from ? to : below.empty() || *below.begin() == ".." ? path : to / below;
  };
  std::map<std::filesystem::path, uint64_t> sizes;
  for (const auto& [path, size] : synced_sizes_) sizes[moved(path)] = size;
  synced_sizes_ = std::move(sizes);
  for (Entry& pending : entries_) pending.path = moved(pending.path);
  std::erase_if(entries_, [&](const Entry& pending) { return pending.path == to; });
  entries_.push_back(std::move(entry));
}

void FaultyFileSystem::remove_all(const std::filesystem::path& path) {
  operation();
  below_.remove_all(path);
}

void FaultyFileSystem::lose_unsynced() {
  for (const auto& [path, size] : synced_sizes_) {
    if (std::filesystem::is_regular_file(path)) std::filesystem::resize_file(path, size);
  }
  for (auto entry = entries_.rbegin(); entry != entries_.rend(); ++entry) {
    if (!std::filesystem::exists(entry->path)) continue;
    if (entry->from.empty()) {
      std::filesystem::remove_all(entry->path);
    } else {
      std::filesystem::rename(entry->path, entry->from);
      if (entry->replaced) write_file(entry->path, *entry->replaced);
    }
  }
  synced_sizes_.clear();
  entries_.clear();
}

}  // namespace weft
