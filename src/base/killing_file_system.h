// A file system for tests that ends the process where it is told to.
#pragma once

#include <csignal>
#include <filesystem>
#include <memory>
#include <span>
#include <unistd.h>
#include <utility>

#include "base/file_system.h"

namespace weft {

// Kills its own process, as SIGKILL from outside would, at a given operation: a write after half of its data.
class KillingFileSystem final : public FileSystem {
 public:
  explicit KillingFileSystem(int at) : left_(at) {}

  class File final : public WritableFile {
   public:
    File(KillingFileSystem& owner, std::unique_ptr<WritableFile> below) : owner_(owner), below_(std::move(below)) {}
    void write(std::span<const std::byte> data) override {
      if (owner_.left_ == 0) below_->write(data.first(data.size() / 2));
      owner_.operation();
      below_->write(data);
    }
    void sync() override {
      owner_.operation();
      below_->sync();
    }
    void close() override {
      owner_.operation();
      below_->close();
    }

   private:
    KillingFileSystem& owner_;
    std::unique_ptr<WritableFile> below_;
  };

  std::unique_ptr<WritableFile> create(const std::filesystem::path& path) override {
    operation();
    return std::make_unique<File>(*this, real().create(path));
  }
  void create_directory(const std::filesystem::path& path) override {
    operation();
    real().create_directory(path);
  }
  void sync_directory(const std::filesystem::path& path) override {
    operation();
    real().sync_directory(path);
  }
  void rename(const std::filesystem::path& from, const std::filesystem::path& to) override {
    operation();
    real().rename(from, to);
  }
  void remove_all(const std::filesystem::path& path) override {
    operation();
    real().remove_all(path);
  }

 private:
  void operation() {
    if (left_-- == 0) ::kill(::getpid(), SIGKILL);
  }
  int left_;
};

}  // namespace weft
