#include "base/file.h"

#include <fstream>
#include <set>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/faulty_file_system.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

class FileTest : public testing::Test {
 protected:
  FileTest() {
    folder_ = fs::temp_directory_path() / ("weft-file-" + std::to_string(::getpid()) +
                                           testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ~FileTest() override { fs::remove_all(folder_); }

  [[nodiscard]] std::set<std::string> names() const {
    std::set<std::string> found;
    for (const auto& entry : fs::recursive_directory_iterator(folder_)) {
      found.insert(entry.path().lexically_relative(folder_).string());
    }
    return found;
  }

  fs::path folder_;
};

template <class Call>
std::string input_error(Call call) {
  try {
    call();
  } catch (const InputError& error) {
    return error.what();
  }
  return "nothing thrown";
}

TEST_F(FileTest, ReadsWithinTheBound) {
  write_file(folder_ / "a", "hello");
  EXPECT_EQ(read_file(folder_ / "a", 5), "hello");
  EXPECT_NE(input_error([&] { (void)read_file(folder_ / "a", 4); }).find("more than the 4 allowed"), std::string::npos);
  EXPECT_NE(input_error([&] { (void)read_file(folder_ / "none"); }).find("No such file"), std::string::npos);
  EXPECT_NE(input_error([&] { (void)read_file(folder_); }).find("is a folder"), std::string::npos);
  EXPECT_NE(input_error([&] { (void)MappedFile("/dev/zero"); }).find("device"), std::string::npos);
}

TEST_F(FileTest, ReadsAPipeWithinTheBound) {
  const fs::path pipe = folder_ / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const std::string text(200000, 'x');  // more than a pipe holds
  std::thread writer([&] { std::ofstream(pipe) << text; });
  EXPECT_EQ(read_file(pipe), text);
  writer.join();
  EXPECT_NE(input_error([] { (void)read_file("/dev/zero", 1000); }).find("more than the 1000"), std::string::npos);
}

TEST_F(FileTest, MapsAndChecksRanges) {
  write_file(folder_ / "a", "0123456789");
  write_file(folder_ / "empty", "");
  MappedFile file(folder_ / "a");
  MappedFile moved = std::move(file);
  EXPECT_EQ(moved.text(), "0123456789");
  EXPECT_EQ(moved.at(10, 0, "nothing").size(), 0U);
  EXPECT_EQ(static_cast<char>(moved.at(9, 1, "the last")[0]), '9');
  for (const auto& [offset, length] :
       {std::pair<uint64_t, uint64_t>{9, 2}, {11, 0}, {1, ~uint64_t{0}}, {~uint64_t{0}, 2}}) {
    EXPECT_THROW((void)moved.at(offset, length, "the range"), InputError);
  }
  EXPECT_EQ(MappedFile(folder_ / "empty").size(), 0U);
}

TEST_F(FileTest, AnAtomicFileAppearsWholeOrNotAtAll) {
  write_file(folder_ / "a", "old");
  {
    AtomicFile file(folder_ / "a");
    file.write("new");
    EXPECT_EQ(read_file(folder_ / "a"), "old");
  }
  EXPECT_EQ(names(), std::set<std::string>{"a"});
  EXPECT_EQ(read_file(folder_ / "a"), "old");
  {
    AtomicFile file(folder_ / "a");
    file.write("new");
    file.commit();
  }
  EXPECT_EQ(read_file(folder_ / "a"), "new");
  EXPECT_EQ(names(), std::set<std::string>{"a"});
}

TEST_F(FileTest, AFullDiskLeavesTheOldFileAndNothingElse) {
  write_file(folder_ / "a", "old");
  for (uint64_t bytes = 0; bytes < 6; ++bytes) {
    FaultyFileSystem disk;
    disk.fill_after(bytes);
    EXPECT_THROW(write_file(folder_ / "a", "longer", disk), Error);
    EXPECT_EQ(read_file(folder_ / "a"), "old");
    EXPECT_EQ(names(), std::set<std::string>{"a"});
  }
}

// Every crash, with and without the loss of what was not synced: the old file or the new one, never less.
TEST_F(FileTest, ACrashAtAnyOperationLeavesTheOldOrTheNewFile) {
  for (const bool power_cut : {false, true}) {
    bool done = false;
    for (uint64_t operation = 0; !done; ++operation) {
      fs::remove_all(folder_);
      fs::create_directories(folder_);
      write_file(folder_ / "a", "old");
      FaultyFileSystem disk;
      disk.crash_at(operation);
      try {
        write_file(folder_ / "a", "a longer new one", disk);
        done = true;
      } catch (const SimulatedCrash&) {
      }
      if (power_cut) disk.lose_unsynced();
      const std::string contents = read_file(folder_ / "a");
      EXPECT_TRUE(contents == "old" || contents == "a longer new one") << operation << contents;
      if (done) {
        EXPECT_EQ(contents, "a longer new one");
        EXPECT_EQ(disk.operations(), operation);
        EXPECT_GE(operation, 5U);
      }
      for (const std::string& name : names()) EXPECT_TRUE(name == "a" || is_partial(folder_ / name)) << name;
    }
  }
}

TEST_F(FileTest, ACrashAtAnyOperationLeavesNoFolderOrAWholeOne) {
  for (const bool power_cut : {false, true}) {
    bool done = false;
    for (uint64_t operation = 0; !done; ++operation) {
      fs::remove_all(folder_);
      fs::create_directories(folder_);
      FaultyFileSystem disk;
      disk.crash_at(operation);
      try {
        AtomicFolder folder(folder_ / "step", disk);
        folder.write("one", "1111");
        folder.write("two", "2222");
        folder.commit();
        done = true;
      } catch (const SimulatedCrash&) {
      }
      if (power_cut) disk.lose_unsynced();
      if (done || fs::exists(folder_ / "step")) {
        EXPECT_EQ(read_file(folder_ / "step" / "one"), "1111");
        EXPECT_EQ(read_file(folder_ / "step" / "two"), "2222");
      }
    }
  }
}

// The fault injection must be able to find a missing sync.
TEST_F(FileTest, APowerCutLosesWhatWasNotSynced) {
  FaultyFileSystem disk;
  const auto file = disk.create(folder_ / "a");
  file->write(std::string_view("12"));
  file->sync();
  file->write(std::string_view("34"));
  disk.sync_directory(folder_);
  (void)disk.create(folder_ / "b");
  disk.lose_unsynced();
  EXPECT_EQ(read_file(folder_ / "a"), "12");
  EXPECT_FALSE(fs::exists(folder_ / "b"));
}

TEST_F(FileTest, AFolderIsNotWrittenOverAnother) {
  fs::create_directory(folder_ / "step");
  AtomicFolder folder(folder_ / "step/");
  folder.write("one", "1");
  EXPECT_THROW(folder.commit(), Error);
}

TEST_F(FileTest, KnowsPartialNames) {
  EXPECT_TRUE(is_partial("a/step-5.partial-123"));
  EXPECT_FALSE(is_partial("a/step-5.partial-"));
  EXPECT_FALSE(is_partial("a/step-5.partial-12x"));
  EXPECT_FALSE(is_partial("a/.partial-12"));
  EXPECT_FALSE(is_partial("a/step-5"));
}

}  // namespace
}  // namespace weft
