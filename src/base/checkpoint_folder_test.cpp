#include "base/checkpoint_folder.h"

#include <csignal>
#include <fstream>
#include <numeric>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "base/checkpoint_file.h"
#include "base/error.h"
#include "base/faulty_file_system.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/killing_file_system.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (fs::temp_directory_path() / "weft-checkpoint-XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  ~TemporaryFolder() { fs::remove_all(path_); }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

std::vector<float> values(int64_t step, size_t count) {
  std::vector<float> result(count);
  std::iota(result.begin(), result.end(), static_cast<float>(step) * 1000);
  return result;
}

// Two files of tensors and a text, as training writes them.
void save(const fs::path& checkpoints, int64_t step, FileSystem& file_system = FileSystem::real(),
          std::optional<double> validation_loss = {}) {
  const auto weights = values(step, 24), moments = values(step + 1, 24);
  const auto tensor = [](std::string state, std::string path, const std::vector<float>& contents) {
    return StateToWrite{std::move(state), std::move(path), StoredType::kF32, {4, 6}, [&contents] {
                          return std::as_bytes(std::span(contents));
                        }};
  };
  CheckpointWriter writer(checkpoints / checkpoint_name(step), file_system);
  writer.write_tensors("parameters.safetensors", {tensor("value", "a", weights), tensor("value", "b", moments)});
  writer.write_tensors("optimizer.safetensors", {tensor("first_moment", "a", moments)});
  writer.write_file("config.toml", "[model]\n");
  Manifest manifest;
  manifest.step = step;
  manifest.samples = step * 12;
  manifest.validation_loss = validation_loss;
  writer.commit(manifest);
  prune_checkpoints(checkpoints, 2, file_system);
}

void expect_whole(const fs::path& folder, int64_t step) {
  EXPECT_EQ(verify_checkpoint(folder), std::vector<std::string>{});
  CheckpointReader reader(folder);
  EXPECT_EQ(reader.manifest().step, step);
  EXPECT_EQ(reader.manifest().samples, step * 12);
  std::vector<float> read(24);
  for (const auto& [state, path, expected] : {std::tuple("value", "a", step), std::tuple("value", "b", step + 1),
                                              std::tuple("first_moment", "a", step + 1)}) {
    const ManifestTensor* tensor = reader.manifest().find(state, path);
    ASSERT_NE(tensor, nullptr);
    reader.read(*tensor, std::as_writable_bytes(std::span(read)));
    EXPECT_EQ(read, values(expected, 24));
  }
  EXPECT_EQ(reader.read_text("config.toml"), "[model]\n");
}

std::vector<int64_t> steps(const fs::path& checkpoints) {
  std::vector<int64_t> result;
  for (const auto& entry : list_checkpoints(checkpoints)) result.push_back(entry.step);
  return result;
}

size_t entries(const fs::path& folder) {
  return static_cast<size_t>(std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

TEST(CheckpointFolder, SavesListsAndPrunes) {
  TemporaryFolder folder;
  EXPECT_FALSE(newest_checkpoint(folder.path() / "none").has_value());
  save(folder.path(), 9, FileSystem::real(), 1.5);
  save(folder.path(), 10, FileSystem::real(), 1.25);
  save(folder.path(), 100, FileSystem::real(), 2.0);
  EXPECT_EQ(steps(folder.path()), (std::vector<int64_t>{10, 100}));
  save(folder.path(), 200);
  save(folder.path(), 300);
  EXPECT_EQ(steps(folder.path()), (std::vector<int64_t>{10, 200, 300}));  // the best and the two newest
  EXPECT_EQ(newest_checkpoint(folder.path())->manifest.step, 300);
  EXPECT_EQ(best_checkpoint(folder.path())->manifest.step, 10);
  expect_whole(folder.path() / "step-300", 300);
  save(folder.path(), 300);  // again, over itself
  expect_whole(folder.path() / "step-300", 300);
  EXPECT_EQ(entries(folder.path()), 3u);
}

TEST(CheckpointFolder, OnlyStepsCount) {
  TemporaryFolder folder;
  for (const char* name : {"step-", "step-1x", "step-01", "step--1", "step-5.partial-77", "other"}) {
    fs::create_directory(folder.path() / name);
  }
  std::ofstream(folder.path() / "step-3") << "a file";
  EXPECT_EQ(steps(folder.path()), std::vector<int64_t>{});
  clean_checkpoints(folder.path());
  EXPECT_FALSE(fs::exists(folder.path() / "step-5.partial-77"));
  EXPECT_TRUE(fs::exists(folder.path() / "step-1x"));
}

// A save of step 30 is broken off at every operation; steps 10 and 20 were there before. Afterwards there is a newest
// whole one, and the next save works.
void expect_recovers(const fs::path& checkpoints, bool at_start) {
  const auto newest = newest_checkpoint(checkpoints);
  ASSERT_TRUE(newest.has_value());
  EXPECT_TRUE(newest->manifest.step == 20 || newest->manifest.step == 30);
  if (at_start) {
    EXPECT_EQ(newest->manifest.step, 20);
  }
  expect_whole(newest->folder, newest->manifest.step);
  for (const auto& entry : list_checkpoints(checkpoints)) expect_whole(entry.folder, entry.step);
  clean_checkpoints(checkpoints);
  EXPECT_EQ(entries(checkpoints), steps(checkpoints).size());
  save(checkpoints, 30);
  expect_whole(checkpoints / "step-30", 30);
}

TEST(CheckpointFolder, CrashAtEveryOperation) {
  for (const bool power_cut : {false, true}) {
    for (uint64_t operation = 0;; ++operation) {
      TemporaryFolder folder;
      save(folder.path(), 10);
      save(folder.path(), 20);
      FaultyFileSystem file_system;
      file_system.crash_at(operation);
      bool crashed = false;
      try {
        save(folder.path(), 30, file_system);
      } catch (const SimulatedCrash&) {
        crashed = true;
      }
      if (power_cut) file_system.lose_unsynced();
      SCOPED_TRACE(testing::Message() << "operation " << operation << (power_cut ? ", power cut" : ""));
      expect_recovers(folder.path(), operation < 3);
      if (!crashed) {
        EXPECT_GT(operation, 15u);
        break;
      }
    }
  }
}

TEST(CheckpointFolder, ChildKilledAtEveryOperation) {
  for (int operation = 0;; ++operation) {
    TemporaryFolder folder;
    save(folder.path(), 10);
    save(folder.path(), 20);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      KillingFileSystem file_system(operation);
      save(folder.path(), 30, file_system);
      ::_exit(0);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    SCOPED_TRACE(testing::Message() << "operation " << operation);
    expect_recovers(folder.path(), operation < 3);
    if (WIFEXITED(status)) {
      EXPECT_EQ(WEXITSTATUS(status), 0);
      EXPECT_GT(operation, 15);
      break;
    }
    EXPECT_EQ(WTERMSIG(status), SIGKILL);
  }
}

TEST(CheckpointFolder, DiskFullAnywhere) {
  TemporaryFolder folder;
  save(folder.path(), 20);
  for (uint64_t bytes = 0;; bytes += 37) {
    FaultyFileSystem file_system;
    file_system.fill_after(bytes);
    bool full = false;
    try {
      save(folder.path(), 30, file_system);
    } catch (const Error& error) {
      full = true;
      EXPECT_NE(std::string(error.what()).find("No space left on device"), std::string::npos);
      EXPECT_EQ(error.exit_code(), ExitCode::kFailed);
    }
    if (!full) break;
    EXPECT_EQ(steps(folder.path()), std::vector<int64_t>{20});
    EXPECT_EQ(entries(folder.path()), 1u) << "nothing remains of a failed save";
  }
  expect_whole(folder.path() / "step-30", 30);
}

TEST(CheckpointFolder, EveryFlippedByteIsFoundAndNamed) {
  TemporaryFolder folder;
  save(folder.path(), 20);
  const fs::path step = folder.path() / "step-20";
  for (const std::string file : {"parameters.safetensors", "optimizer.safetensors", "config.toml", "manifest.json"}) {
    const std::string contents = read_file(step / file);
    for (size_t i = 0; i < contents.size(); ++i) {
      std::string flipped = contents;
      flipped[i] = static_cast<char>(flipped[i] ^ 0x10);
      std::ofstream(step / file, std::ios::binary) << flipped;
      const auto problems = verify_checkpoint(step);
      ASSERT_EQ(problems.size(), 1u) << file << " byte " << i;
      EXPECT_NE(problems[0].find(file), std::string::npos) << problems[0];
      if (file == "parameters.safetensors" && i + 96 >= contents.size()) {
        EXPECT_NE(problems[0].find("tensor 'b'"), std::string::npos) << problems[0];
      }
    }
    std::ofstream(step / file, std::ios::binary) << contents;
  }
  expect_whole(step, 20);
}

TEST(CheckpointFolder, DamageIsSeenOnReading) {
  TemporaryFolder folder;
  save(folder.path(), 20);
  const fs::path file = folder.path() / "step-20" / "parameters.safetensors";
  std::string contents = read_file(file);
  contents.back() = static_cast<char>(contents.back() ^ 1);
  std::ofstream(file, std::ios::binary) << contents;
  CheckpointReader reader(folder.path() / "step-20");
  std::vector<float> read(24);
  reader.read(*reader.manifest().find("value", "a"), std::as_writable_bytes(std::span(read)));
  try {
    reader.read(*reader.manifest().find("value", "b"), std::as_writable_bytes(std::span(read)));
    FAIL() << "read damaged data";
  } catch (const InputError& error) {
    EXPECT_NE(std::string(error.what()).find("parameters.safetensors: tensor 'b' is damaged"), std::string::npos);
  }
}

TEST(CheckpointFolder, TruncatedOrMissingIsNotComplete) {
  TemporaryFolder folder;
  save(folder.path(), 10);
  save(folder.path(), 20);
  fs::resize_file(folder.path() / "step-20" / "optimizer.safetensors", 50);
  EXPECT_EQ(newest_checkpoint(folder.path())->manifest.step, 10);
  EXPECT_NE(verify_checkpoint(folder.path() / "step-20").front().find("optimizer.safetensors: has 50 bytes"),
            std::string::npos);
  fs::remove(folder.path() / "step-20" / "optimizer.safetensors");
  EXPECT_NE(verify_checkpoint(folder.path() / "step-20").front().find("cannot be read"), std::string::npos);
  fs::remove(folder.path() / "step-20" / "manifest.json");
  EXPECT_NE(verify_checkpoint(folder.path() / "step-20").front().find("not complete"), std::string::npos);
  EXPECT_THROW((void)find_model_folder(folder.path() / "step-20"), InputError);
  EXPECT_EQ(find_model_folder(folder.path() / "step-10").kind, ModelFolderKind::kCheckpoint);
}

// Two ranks' pieces of one tensor, cut along its columns, are joined.
TEST(CheckpointFolder, PiecesAreJoined) {
  TemporaryFolder folder;
  std::vector<int32_t> left, right, whole(2 * 3 * 5);
  std::iota(whole.begin(), whole.end(), 0);
  for (int32_t i = 0; i < 30; ++i) (i % 5 < 2 ? left : right).push_back(i);
  WrittenSafetensors written;
  {
    AtomicFolder aside(folder.path() / "step-1");
    const auto file = aside.create("x.safetensors");
    written =
        write_safetensors([&](std::span<const std::byte> data) { file->write(data); },
                          {{"left", StoredType::kI32, {2, 3, 2}, [&] { return std::as_bytes(std::span(left)); }},
                           {"right", StoredType::kI32, {2, 3, 3}, [&] { return std::as_bytes(std::span(right)); }}});
    file->sync();
    file->close();
    Manifest manifest;
    manifest.step = 1;
    manifest.files = {{"x.safetensors", written.bytes, written.checksum}};
    manifest.tensors = {{"value",
                         "t",
                         StoredType::kI32,
                         {2, 3, 5},
                         {{"x.safetensors", "right", {{0, 0, 2}, {2, 3, 3}}, written.tensor_checksums.at("right")},
                          {"x.safetensors", "left", {{0, 0, 0}, {2, 3, 2}}, written.tensor_checksums.at("left")}}}};
    aside.write("manifest.json", manifest_text(manifest));
    aside.commit();
  }
  CheckpointReader reader(folder.path() / "step-1");
  std::vector<int32_t> read(30);
  reader.read(*reader.manifest().find("value", "t"), std::as_writable_bytes(std::span(read)));
  EXPECT_EQ(read, whole);
}

}  // namespace
}  // namespace weft
