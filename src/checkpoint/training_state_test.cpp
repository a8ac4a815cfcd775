#include "checkpoint/training_state.h"

#include <fstream>
#include <unistd.h>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "base/checkpoint_folder.h"
#include "base/counted_parts.h"
#include "base/error.h"
#include "base/faulty_file_system.h"
#include "base/file.h"
#include "base/threads_as_ranks.h"
#include "checkpoint/model_source.h"
#include "checkpoint/stored_tensor.h"
#include "model/describe.h"
#include "model/family.h"

namespace weft::checkpoint {
namespace {

namespace fs = std::filesystem;

class TrainingStateTest : public testing::Test {
 protected:
  TrainingStateTest() {
    std::string name = (fs::temp_directory_path() / "weft-state-XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
    model::LlamaFamily family;
    family.vocabulary = 11;
    family.width = 8;
    family.layers = 1;
    family.heads = 2;
    tree_ = family.model();
    description_ = model::describe(tree_);
    // Views into one flat buffer, as the trainer has them, and moments beside.
    flat_ = at::arange(description_.parameter_count() * 3, at::kFloat) * 0.5;
  }
  ~TrainingStateTest() override { fs::remove_all(folder_); }

  std::vector<StateTensor> tensors(const at::Tensor& flat) const {
    std::vector<StateTensor> result;
    int64_t at = 0;
    for (const char* state : {kParameterValue, "first_moment", "second_moment"}) {
      for (const auto& parameter : description_.parameters) {
        const int64_t count = parameter.elements();
        result.push_back({state, parameter.path, flat.narrow(0, at, count).view(parameter.shape)});
        at += count;
      }
    }
    return result;
  }

  fs::path save(int64_t step, FileSystem& file_system = FileSystem::real()) {
    TrainingState state;
    state.manifest.step = step;
    state.manifest.samples = 12 * step;
    state.manifest.optimizer = {{"decayed", "adamw", "bias-corrected", step, {}}};
    state.model = &tree_;
    state.texts = {{"config.toml", "[train]\n"}};
    state.tensors = held_whole(tensors(flat_));
    return save_training_state(folder_ / "checkpoints", state, 2, {}, file_system);
  }

  std::string refusal(const fs::path& step, const std::vector<StateTensor>& wanted) const {
    try {
      CheckpointReader reader(step);
      load_training_state(reader, held_whole(wanted));
    } catch (const InputError& error) {
      return error.what();
    }
    return "loaded";
  }

  fs::path folder_;
  model::ModelNode tree_;
  model::ModelDescription description_;
  at::Tensor flat_;
};

TEST_F(TrainingStateTest, ComesBackBitwise) {
  const auto step = save(7);
  EXPECT_EQ(step, folder_ / "checkpoints" / "step-7");
  EXPECT_EQ(verify_checkpoint(step), std::vector<std::string>{});
  const at::Tensor loaded = at::zeros_like(flat_);
  CheckpointReader reader(step);
  load_training_state(reader, held_whole(tensors(loaded)));
  EXPECT_TRUE(at::equal(loaded, flat_));
  EXPECT_EQ(reader.manifest().samples, 84);
  EXPECT_EQ(reader.manifest().optimizer.at(0).updates, 7);
  EXPECT_EQ(reader.read_text("config.toml"), "[train]\n");
}

TEST_F(TrainingStateTest, IsAModelThatCanBeOpened) {
  save(7);
  for (const fs::path& directory : {folder_, folder_ / "checkpoints" / "step-7"}) {
    const ModelSource source = open_model(directory);
    EXPECT_EQ(source.description.parameter_count(), description_.parameter_count());
    int64_t at = 0;
    for (size_t i = 0; i < description_.parameters.size(); ++i) {
      const auto& parameter = description_.parameters[i];
      const at::Tensor read = at::zeros(parameter.shape);
      source.weights->read(static_cast<int>(i), read);
      EXPECT_TRUE(at::equal(read, flat_.narrow(0, at, parameter.elements()).view(parameter.shape)));
      at += parameter.elements();
    }
  }
}

// Saved by ranks of one layout and read by ranks of another: every bit, and a model like any other.
TEST_F(TrainingStateTest, AnyLayoutResumesFromAnyOther) {
  RandomParts random(1);
  const auto whole = held_whole(tensors(flat_));
  // A rank's parts of all tensors, with values of their own.
  const auto parts_of = [&](const std::vector<std::vector<TensorPart>>& layout, size_t rank) {
    std::vector<HeldTensor> held;
    for (size_t i = 0; i < whole.size(); ++i) {
      const TensorPart& part = layout[i][rank];
      held.push_back({whole[i].state, whole[i].path, whole[i].shape, part, at::zeros({part.elements()})});
    }
    return held;
  };
  const auto values_of = [&](size_t i, const TensorPart& part) {
    const auto places = places_of(part, whole[i].shape);
    return whole[i].values.reshape(-1).index_select(0, at::tensor(places, at::kLong));
  };
  for (const int size : {1, 2, 4, 8}) {
    const int other = size == 4 ? 3 : 9 - size;
    std::vector<std::vector<TensorPart>> written, wanted;
    for (const HeldTensor& tensor : whole) {
      written.push_back(random.layout(tensor.shape, size));
      wanted.push_back(random.layout(tensor.shape, other));
    }
    const auto saved = on_threads(size, [&](const CheckpointRanks& self) {
      TrainingState state;
      state.manifest.step = size;
      state.model = &tree_;
      state.tensors = parts_of(written, static_cast<size_t>(self.rank));
      for (size_t i = 0; i < whole.size(); ++i) state.tensors[i].values.copy_(values_of(i, state.tensors[i].part));
      save_training_state(folder_ / "checkpoints", state, 2, self);
    });
    EXPECT_EQ(saved.front(), "");
    const fs::path step = folder_ / "checkpoints" / checkpoint_name(size);
    const auto loaded = on_threads(other, [&](const CheckpointRanks& self) {
      CheckpointReader reader(step);
      const auto held = parts_of(wanted, static_cast<size_t>(self.rank));
      load_training_state(reader, held, self);
      for (size_t i = 0; i < whole.size(); ++i) EXPECT_TRUE(at::equal(held[i].values, values_of(i, held[i].part)));
    });
    EXPECT_EQ(loaded.front(), "");
    const ModelSource source = open_model(step);
    const at::Tensor read = at::zeros(description_.parameters.front().shape);
    source.weights->read(0, read);
    EXPECT_TRUE(at::equal(read, whole.front().values));
  }
}

// A rank that asks for what is not there fails all of them; what one of them wants is expected.
TEST_F(TrainingStateTest, RanksFailTogether) {
  const auto step = save(7);
  const auto whole = held_whole(tensors(at::zeros_like(flat_)));
  const auto load = [&](const std::string& renamed) {
    return on_threads(2, [&](const CheckpointRanks& self) {
      CheckpointReader reader(step);
      const auto middle = whole.begin() + 5;
      std::vector<HeldTensor> held = self.rank == 0 ? std::vector<HeldTensor>(whole.begin(), middle)
                                                    : std::vector<HeldTensor>(middle, whole.end());
      if (self.rank == 1 && !renamed.empty()) held.front().path = renamed;
      load_training_state(reader, held, self);
    });
  };
  EXPECT_EQ(load(""), (std::vector<std::string>{"", ""}));
  const auto refused = load("layers.9.other.weight");
  EXPECT_EQ(refused[0], refused[1]);
  EXPECT_NE(refused[0].find("value of 'layers.9.other.weight' is missing"), std::string::npos) << refused[0];
  EXPECT_NE(refused[0].find("value of '" + whole[5].path + "' is not expected"), std::string::npos) << refused[0];
}

TEST_F(TrainingStateTest, NamesEveryMisfitAndWritesNothing) {
  const auto step = save(7);
  const at::Tensor loaded = at::zeros_like(flat_);
  auto wanted = tensors(loaded);
  wanted[0].tensor = at::zeros({3, 3});
  wanted[1].path = "layers.9.other.weight";
  const std::string said = refusal(step, wanted);
  EXPECT_NE(said.find("value of 'embedding.weight' is F32 [11, 8], expected F32 [3, 3]"), std::string::npos) << said;
  EXPECT_NE(said.find("value of 'layers.9.other.weight' is missing"), std::string::npos) << said;
  EXPECT_NE(said.find("value of '" + description_.parameters[1].path + "' is not expected"), std::string::npos) << said;
  EXPECT_EQ(loaded.abs().max().item<float>(), 0);
}

TEST_F(TrainingStateTest, NamesTheDamagedTensor) {
  const auto step = save(7);
  std::string contents = read_file(step / kOptimizerFile);
  contents.back() = static_cast<char>(contents.back() ^ 4);
  std::ofstream(step / kOptimizerFile, std::ios::binary) << contents;
  const std::string said = refusal(step, tensors(at::zeros_like(flat_)));
  EXPECT_NE(said.find("optimizer.safetensors: tensor 'second_moment/"), std::string::npos) << said;
  EXPECT_NE(said.find("is damaged"), std::string::npos) << said;
}

TEST_F(TrainingStateTest, AFullDiskLeavesWhatWasThere) {
  save(7);
  FaultyFileSystem file_system;
  file_system.fill_after(3000);
  flat_ = flat_ + 1;
  EXPECT_THROW(save(8, file_system), Error);
  EXPECT_EQ(newest_checkpoint(folder_ / "checkpoints")->manifest.step, 7);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_ / "checkpoints"), fs::directory_iterator()), 1);
}

TEST(StoredTensor, TypesAndViews) {
  const fs::path path = fs::temp_directory_path() / ("weft-tensors-" + std::to_string(::getpid()));
  const at::Tensor values = at::arange(12, at::kFloat).view({3, 4});
  write_tensor_file(path, {{"transposed", values.t()},
                           {"half", values.to(at::kHalf)},
                           {"brain", values.to(at::kBFloat16)},
                           {"whole", values.to(at::kLong)},
                           {"true", values > 3},
                           {"scalar", at::scalar_tensor(2.5, at::kDouble)},
                           {"empty", at::zeros({0, 5})}});
  const SafetensorsFile file(path);
  const auto read = [&](const char* name) {
    const StoredTensor* tensor = file.find(name);
    return tensor_of(file.data(*tensor), tensor->type, tensor->shape);
  };
  EXPECT_TRUE(at::equal(read("transposed"), values.t()));
  EXPECT_TRUE(at::equal(read("half"), values.to(at::kHalf)));
  EXPECT_TRUE(at::equal(read("brain"), values.to(at::kBFloat16)));
  EXPECT_TRUE(at::equal(read("whole"), values.to(at::kLong)));
  EXPECT_TRUE(at::equal(read("true"), values > 3));
  EXPECT_EQ(read("scalar").item<double>(), 2.5);
  EXPECT_EQ(read("empty").sizes().vec(), (std::vector<int64_t>{0, 5}));
  fs::remove(path);
}

}  // namespace
}  // namespace weft::checkpoint
