// Checkpoints of several ranks: threads that gather in memory, and processes that are killed.
#include "base/checkpoint_ranks.h"

#include <fstream>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include <gtest/gtest.h>

#include "base/checkpoint_folder.h"
#include "base/counted_parts.h"
#include "base/error.h"
#include "base/faulty_file_system.h"
#include "base/file.h"
#include "base/killing_file_system.h"
#include "base/threads_as_ranks.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

struct TestTensor {
  std::string state, path;
  std::vector<int64_t> shape;
};
const std::vector<TestTensor> kTensors = {{"value", "a", {6, 9}},
                                          {"value", "b", {11}},
                                          {"value", "c", {2, 3, 4}},
                                          {"first_moment", "a", {6, 9}},
                                          {"value", "scalar", {}}};

// By tensor, then by rank.
using Layout = std::vector<std::vector<TensorPart>>;

Layout random_layout(RandomParts& random, int ranks) {
  Layout layout;
  for (const TestTensor& tensor : kTensors) layout.push_back(random.layout(tensor.shape, ranks));
  return layout;
}

// An element tells its tensor, its place and the step.
std::vector<float> values_of(size_t tensor, const TensorPart& part, int64_t step) {
  std::vector<float> values;
  for (const int64_t place : places_of(part, kTensors[tensor].shape)) {
    values.push_back(static_cast<float>(place + 100 * static_cast<int64_t>(tensor) + 1000 * step));
  }
  return values;
}

void save(const fs::path& checkpoints, int64_t step, const Layout& layout, const CheckpointRanks& ranks,
          FileSystem& file_system = FileSystem::real()) {
  CheckpointToWrite contents;
  contents.manifest.step = step;
  contents.texts = {{"config.toml", "[model]\n"}};
  auto& tensors = contents.files["rank-" + std::to_string(ranks.rank) + ".safetensors"];
  std::vector<std::vector<float>> values(kTensors.size());
  for (size_t i = 0; i < kTensors.size(); ++i) {
    const TensorPart& part = layout[i].at(static_cast<size_t>(ranks.rank));
    values[i] = values_of(i, part, step);
    tensors.push_back({kTensors[i].state, kTensors[i].path, StoredType::kF32, kTensors[i].shape,
                       [&values, i] { return std::as_bytes(std::span(values[i])); }, part});
  }
  write_checkpoint_together(checkpoints / checkpoint_name(step), contents, ranks, file_system);
}

// Every part of a layout, read from whatever layout wrote the folder.
void expect_readable(const fs::path& folder, int64_t step, const Layout& layout) {
  EXPECT_EQ(verify_checkpoint(folder), std::vector<std::string>{});
  CheckpointReader reader(folder);
  EXPECT_EQ(reader.read_text("config.toml"), "[model]\n");
  for (size_t i = 0; i < kTensors.size(); ++i) {
    const ManifestTensor* tensor = reader.manifest().find(kTensors[i].state, kTensors[i].path);
    ASSERT_NE(tensor, nullptr);
    for (const TensorPart& part : layout[i]) {
      std::vector<float> read(static_cast<size_t>(part.elements()), -1);
      reader.read_part(*tensor, part, std::as_writable_bytes(std::span(read)));
      EXPECT_EQ(read, values_of(i, part, step));
    }
  }
}

class CheckpointRanksTest : public testing::Test {
 protected:
  CheckpointRanksTest() {
    std::string name = (fs::temp_directory_path() / "weft-ranks-XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
  }
  ~CheckpointRanksTest() override { fs::remove_all(folder_); }
  [[nodiscard]] size_t entries() const {
    return static_cast<size_t>(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }
  fs::path folder_;
};

TEST_F(CheckpointRanksTest, AnyLayoutReadsWhatAnyOtherWrote) {
  RandomParts random(2);
  for (int trial = 0; trial < 40; ++trial) {
    const int ranks = static_cast<int>(random.number(1, 8));
    const Layout written = random_layout(random, ranks), wanted = random_layout(random, 1 + trial % 8);
    const auto thrown = on_threads(ranks, [&](const CheckpointRanks& self) { save(folder_, trial, written, self); });
    EXPECT_EQ(thrown, std::vector<std::string>(static_cast<size_t>(ranks)));
    expect_readable(folder_ / checkpoint_name(trial), trial, wanted);
  }
}

TEST_F(CheckpointRanksTest, PiecesThatDoNotFillTheirTensorsAreNoCheckpoint) {
  RandomParts random(3);
  Layout layout = random_layout(random, 2);
  layout[0] = {whole_part({6, 9}), whole_part({6, 9})};  // both bring all of it
  const auto twice = on_threads(2, [&](const CheckpointRanks& self) { save(folder_, 1, layout, self); });
  layout[0][1].range = layout[0][0].range = {0, 5};
  layout[0][1].range = {5, 53};  // the last element is nobody's
  const auto missing = on_threads(2, [&](const CheckpointRanks& self) { save(folder_, 1, layout, self); });
  for (size_t rank = 0; rank < 2; ++rank) {
    EXPECT_NE(twice[rank].find("pieces 0 and 1 overlap"), std::string::npos) << twice[rank];
    EXPECT_NE(missing[rank].find("the pieces hold 212 bytes of 216"), std::string::npos) << missing[rank];
  }
  EXPECT_EQ(entries(), 0u);
}

TEST_F(CheckpointRanksTest, AFullDiskOfOneRankFailsAll) {
  RandomParts random(4);
  const Layout layout = random_layout(random, 3);
  for (const int unlucky : {0, 2}) {
    const auto thrown = on_threads(3, [&](const CheckpointRanks& self) {
      FaultyFileSystem file_system;
      if (self.rank == unlucky) file_system.fill_after(100);
      save(folder_, 1, layout, self, file_system);
    });
    for (const std::string& text : thrown) {
      EXPECT_NE(text.find("rank " + std::to_string(unlucky) + ": "), std::string::npos) << text;
      EXPECT_NE(text.find("No space left on device"), std::string::npos) << text;
    }
    EXPECT_EQ(entries(), 0u);
  }
}

TEST_F(CheckpointRanksTest, DamageIsSeenWhereThePartLies) {
  const Layout layout = {{{{{0, 0}, {6, 9}}, {0, 20}}, {{{0, 0}, {6, 9}}, {20, 54}}}};
  Layout all = layout;
  for (size_t i = 1; i < kTensors.size(); ++i) {
    all.push_back({whole_part(kTensors[i].shape), whole_part(kTensors[i].shape)});
    all.back()[1].range = {0, 0};
  }
  EXPECT_EQ(on_threads(2, [&](const CheckpointRanks& self) { save(folder_, 1, all, self); }).front(), "");
  const fs::path file = folder_ / "step-1" / "rank-1.safetensors";
  std::string bytes = read_file(file);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  std::ofstream(file, std::ios::binary) << bytes;
  CheckpointReader reader(folder_ / "step-1");
  const ManifestTensor& tensor = *reader.manifest().find("value", "a");
  std::vector<float> read(54);
  reader.read_part(tensor, layout[0][0], std::as_writable_bytes(std::span(read).first(20)));
  try {
    reader.read(tensor, std::as_writable_bytes(std::span(read)));
    FAIL() << "damage was not seen";
  } catch (const InputError& error) {
    EXPECT_NE(std::string(error.what()).find("rank-1.safetensors: tensor 'a@"), std::string::npos) << error.what();
  }
}

TEST_F(CheckpointRanksTest, WrittenAgainForAnyNumberOfRanks) {
  RandomParts random(6);
  const Layout layout = random_layout(random, 4), other = random_layout(random, 5);
  on_threads(4, [&](const CheckpointRanks& self) { save(folder_, 7, layout, self); });
  for (const int ranks : {3, 1}) {
    const fs::path to = folder_ / ("for-" + std::to_string(ranks));
    const Manifest manifest = reshard_checkpoint(folder_ / "step-7", to, ranks);
    EXPECT_EQ(manifest.step, 7);
    expect_readable(to, 7, other);
    EXPECT_EQ(fs::exists(to / "rank-2.safetensors"), ranks == 3);
    EXPECT_EQ(fs::exists(to / kParametersFile), ranks == 1);
    EXPECT_THROW(reshard_checkpoint(folder_ / "step-7", to, ranks), InputError) << "it exists";
  }
  const CheckpointReader reader(folder_ / "for-1");
  for (const ManifestTensor& tensor : reader.manifest().tensors) {
    ASSERT_EQ(tensor.pieces.size(), 1u);
    EXPECT_EQ(tensor.pieces.front().tensor, tensor.state == "value" ? tensor.path : tensor.state + "/" + tensor.path);
  }
}

// Ranks as processes that meet in a folder: a text each round, and the parent's word that one of them is gone.
class MeetingPlace {
 public:
  explicit MeetingPlace(fs::path folder) : folder_(std::move(folder)) { fs::create_directory(folder_); }
  void say_gone() const { write_file(folder_ / "gone", ""); }
  CheckpointRanks ranks(int rank, int size) const {
    return {rank, size, [this, rank, size, round = 0](std::string mine) mutable {
              ++round;
              write_file(text(round, rank), mine);
              std::vector<std::string> all;
              for (int other = 0; other < size; ++other) {
                while (!fs::exists(text(round, other))) {
                  if (fs::exists(folder_ / "gone")) throw std::runtime_error("another rank is gone");
                  std::this_thread::sleep_for(std::chrono::milliseconds(1));
                }
                all.push_back(read_file(text(round, other)));
              }
              return all;
            }};
  }

 private:
  [[nodiscard]] fs::path text(int round, int rank) const {
    return folder_ / (std::to_string(round) + "-" + std::to_string(rank));
  }
  fs::path folder_;
};

// Whether the rank to be killed was.
bool save_with_a_kill(const fs::path& checkpoints, const fs::path& meeting_folder, const Layout& layout, int victim,
                      int operation) {
  const MeetingPlace meeting(meeting_folder);
  const int size = static_cast<int>(layout.front().size());
  std::vector<pid_t> children;
  for (int rank = 0; rank < size; ++rank) {
    const pid_t child = ::fork();
    if (child == 0) {
      KillingFileSystem killing(operation);
      try {
        save(checkpoints, 30, layout, meeting.ranks(rank, size), rank == victim ? killing : FileSystem::real());
      } catch (const std::exception&) {
        ::_exit(1);
      }
      ::_exit(0);
    }
    children.push_back(child);
  }
  bool killed = false;
  for (size_t left = children.size(); left > 0; --left) {
    int status = 0;
    EXPECT_GT(::waitpid(-1, &status, 0), 0);
    if (!WIFSIGNALED(status)) continue;
    killed = true;
    meeting.say_gone();
  }
  return killed;
}

TEST_F(CheckpointRanksTest, AnyRankKilledAtEveryOperation) {
  RandomParts random(5);
  const Layout layout = random_layout(random, 2), other = random_layout(random, 3);
  for (const int victim : {0, 1}) {
    for (int operation = 0;; ++operation) {
      SCOPED_TRACE(testing::Message() << "rank " << victim << ", operation " << operation);
      const fs::path run = folder_ / (std::to_string(victim) + "-" + std::to_string(operation));
      const fs::path checkpoints = run / "checkpoints";
      fs::create_directories(checkpoints);
      on_threads(2, [&](const CheckpointRanks& self) { save(checkpoints, 20, layout, self); });
      const bool killed = save_with_a_kill(checkpoints, run / "meeting", layout, victim, operation);
      const auto newest = newest_checkpoint(checkpoints);
      ASSERT_TRUE(newest.has_value());
      for (const auto& entry : list_checkpoints(checkpoints)) expect_readable(entry.folder, entry.step, other);
      if (operation < 3) {
        EXPECT_EQ(newest->manifest.step, 20);
      }
      clean_checkpoints(checkpoints);
      const auto thrown = on_threads(2, [&](const CheckpointRanks& self) { save(checkpoints, 30, layout, self); });
      EXPECT_EQ(thrown.front(), "");
      expect_readable(checkpoints / "step-30", 30, other);
      if (!killed) {
        EXPECT_GT(operation, victim == 0 ? 10 : 3);
        break;
      }
    }
  }
}

}  // namespace
}  // namespace weft
