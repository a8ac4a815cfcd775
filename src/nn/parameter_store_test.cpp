#include "nn/parameter_store.h"

#include <array>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "base/hash.h"
#include "base/philox.h"

namespace weft::nn {
namespace {

model::ParameterDescription parameter(std::string path, std::vector<int64_t> shape, bool decays) {
  model::ParameterDescription description;
  description.path = std::move(path);
  description.shape = std::move(shape);
  description.weight_decay = decays;
  description.initializer = {model::Initializer::Kind::kNormal, 0.5};
  return description;
}

model::ModelDescription description() {
  model::ModelDescription model;
  model.parameters = {parameter("b.query", {3, 5}, true), parameter("b.bias", {3}, false),
                      parameter("b.key", {2, 5}, true), parameter("a.key_bias", {2}, false),
                      parameter("a.odd", {4, 7}, true)};
  model.parameters[1].initializer.kind = model::Initializer::Kind::kZeros;
  model.parameters[3].initializer.kind = model::Initializer::Kind::kOnes;
  return model;
}

ParameterStore store(const model::ModelDescription& model, std::vector<bool> frozen = std::vector<bool>(5, false),
                     at::ScalarType type = at::kFloat) {
  return {model, std::move(frozen), type, at::Device(at::kCPU)};
}

TEST(ParameterStore, InitialValuesDependOnSeedPathAndElementOnly) {
  const model::ModelDescription model = description();
  ParameterStore whole = store(model);
  whole.initialize(42);
  for (int64_t i = 0; i < 28; ++i) {
    const RandomKey key = random_key(42, RandomPurpose::kParameters, 0, xxh64("a.odd"));
    EXPECT_EQ(whole.master(4).flatten()[i].item<float>(), random_normal(key, static_cast<uint64_t>(i)) * 0.5F);
  }
  EXPECT_EQ(whole.master(1).abs().sum().item<float>(), 0);
  EXPECT_EQ(whole.master(3).sum().item<float>(), 2);

  // Another order, other neighbours, other groups: the same values and hash.
  model::ModelDescription other = description();
  std::swap(other.parameters[0], other.parameters[4]);
  ParameterStore shuffled = store(other, {false, true, true, false, false});
  shuffled.initialize(42);
  EXPECT_TRUE(at::equal(shuffled.master(0), whole.master(4)));
  EXPECT_EQ(shuffled.parameter_hash(), whole.parameter_hash());
  shuffled.initialize(43);
  EXPECT_NE(shuffled.parameter_hash(), whole.parameter_hash());
}

TEST(ParameterStore, HashIsThatOfTheSortedValues) {
  const model::ModelDescription model = description();
  ParameterStore parameters = store(model);
  parameters.initialize(1);
  StreamingHash hash;
  for (const int index : {3, 4, 1, 2, 0}) {  // a.key_bias, a.odd, b.bias, b.key, b.query
    const at::Tensor& master = parameters.master(index);
    hash.update(std::span(static_cast<const std::byte*>(master.const_data_ptr()), master.nbytes()));
  }
  EXPECT_EQ(parameters.parameter_hash(), hash.digest());
}

TEST(ParameterStore, LaysGroupsOutFlat) {
  const model::ModelDescription model = description();
  ParameterStore parameters = store(model, {false, false, false, false, true});
  parameters.initialize(1);
  parameters.begin_step();
  ASSERT_EQ(parameters.groups().size(), 2U);
  EXPECT_EQ(parameters.groups()[0].pieces, (std::vector<int>{0, 2}));
  EXPECT_EQ(parameters.groups()[1].pieces, (std::vector<int>{1, 3}));
  EXPECT_TRUE(at::equal(parameters.groups()[0].master,
                        at::cat({parameters.master(0).flatten(), parameters.master(2).flatten()})));
  parameters.groups()[0].master.fill_(7);
  EXPECT_EQ(parameters.value(2).sum().item<float>(), 70);
  EXPECT_TRUE(parameters.frozen(4));
  EXPECT_FALSE(parameters.gradient_target(4).buffer.defined());
}

TEST(ParameterStore, JoinsWhatStandsTogether) {
  const model::ModelDescription model = description();
  ParameterStore parameters = store(model);
  parameters.initialize(1);
  parameters.begin_step();
  const std::array<int, 2> weights{0, 2};
  EXPECT_TRUE(at::equal(parameters.joined_value(weights), at::cat({parameters.value(0), parameters.value(2)})));
  const GradientTarget first = parameters.joined_gradient_target(weights);
  EXPECT_FALSE(first.accumulate);
  first.buffer.fill_(3);
  EXPECT_TRUE(parameters.joined_gradient_target(weights).accumulate);
  EXPECT_EQ(parameters.gradient(2).sum().item<float>(), 30);

  parameters.begin_step();
  static_cast<void>(parameters.gradient_target(0));
  EXPECT_FALSE(parameters.joined_gradient_target(weights).buffer.defined());  // one of the two is written already
  EXPECT_FALSE(parameters.gradient_target(2).accumulate);

  const std::array<int, 2> apart{2, 0};
  EXPECT_FALSE(parameters.joined_value(apart).defined());
  ParameterStore half = store(model, {true, false, false, false, false});
  EXPECT_FALSE(half.joined_value(weights).defined());
}

TEST(ParameterStore, UnwrittenGradientsAreZeroOnceFinished) {
  const model::ModelDescription model = description();
  ParameterStore parameters = store(model);
  parameters.finish_gradients();
  parameters.groups()[0].gradient.fill_(9);
  parameters.groups()[1].gradient.fill_(9);
  parameters.begin_step();
  parameters.gradient_target(0).buffer.fill_(1);
  parameters.finish_gradients();
  EXPECT_EQ(parameters.groups()[0].gradient.sum().item<float>(), 15);
  EXPECT_EQ(parameters.groups()[1].gradient.sum().item<float>(), 0);
}

TEST(ParameterStore, ComputeCopiesFollowTheMasters) {
  const model::ModelDescription model = description();
  ParameterStore parameters = store(model, {false, false, false, false, true}, at::kBFloat16);
  parameters.initialize(5);
  for (int index = 0; index < 5; ++index) {
    EXPECT_TRUE(at::equal(parameters.value(index), parameters.master(index).to(at::kBFloat16)));
  }
  parameters.groups()[0].master.mul_(2);
  EXPECT_FALSE(at::equal(parameters.value(0), parameters.master(0).to(at::kBFloat16)));
  parameters.refresh_compute_copies();
  EXPECT_TRUE(at::equal(parameters.value(0), parameters.master(0).to(at::kBFloat16)));
}

// Two layers' worth of parameters whose cuts are of every kind; 4 query heads share 2 key/value heads of 3 features.
model::ModelDescription cut_description() {
  using Kind = model::TensorCut::Kind;
  model::ModelDescription model;
  model.parameters = {parameter("table", {13, 5}, true), parameter("query", {12, 5}, true),
                      parameter("key", {6, 5}, true), parameter("output", {5, 12}, true),
                      parameter("gain", {5}, false)};
  model.parameters[0].tensor_cut = {Kind::kUnits, 0, {}};
  model.parameters[1].tensor_cut = {Kind::kQueryHeads, 0, {4, 2}};
  model.parameters[2].tensor_cut = {Kind::kKeyValueHeads, 0, {4, 2}};
  model.parameters[3].tensor_cut = {Kind::kQueryHeads, 1, {4, 2}};
  return model;
}

// The elements of the global tensor that a piece's range names, by brute force.
std::vector<int64_t> elements_of(const Piece& piece, Range range, const std::vector<int64_t>& global_shape) {
  int64_t count = 1;
  for (const int64_t size : global_shape) count *= size;
  at::Tensor numbers = at::arange(count, at::kLong).view(global_shape);
  for (size_t dim = 0; dim < global_shape.size(); ++dim) {
    numbers = numbers.narrow(static_cast<int64_t>(dim), piece.offset[dim], piece.shape[dim]);
  }
  const at::Tensor held = numbers.reshape({-1}).narrow(0, range.begin, range.size()).contiguous();
  return {held.const_data_ptr<int64_t>(), held.const_data_ptr<int64_t>() + held.numel()};
}

TEST(ParameterStore, RanksTogetherHoldEverythingAndOwnItOnce) {
  const model::ModelDescription model = cut_description();
  ParameterStore whole = store(model);
  whole.initialize(7);
  for (const int64_t tensor : {1, 2, 3, 4, 9}) {
    for (const int64_t shards : {1, 2, 5}) {
      std::vector<at::Tensor> owners;
      for (int index = 0; index < 5; ++index) owners.push_back(at::zeros({whole.master(index).numel()}, at::kLong));
      for (int64_t rank = 0; rank < tensor * shards; ++rank) {
        StoreLayout layout;
        layout.shard.tensor = tensor;
        layout.shard.tensor_rank = rank / shards;
        layout.shards = shards;
        layout.shard_index = rank % shards;
        ParameterStore mine(model, std::vector<bool>(5, false), at::kFloat, at::kCPU, layout);
        mine.initialize(7);
        for (int index = 0; index < 5; ++index) {
          const Piece& piece = mine.piece(index);
          const at::Tensor flat = whole.master(index).flatten();
          const std::vector<int64_t> held = elements_of(piece, piece.range, mine.global_shape(index));
          for (size_t i = 0; i < held.size(); ++i) {
            ASSERT_EQ(piece.master[static_cast<int64_t>(i)].item<float>(), flat[held[i]].item<float>());
          }
          for (const int64_t element : elements_of(piece, piece.owned, mine.global_shape(index))) {
            owners[static_cast<size_t>(index)][element] += 1;
          }
        }
      }
      for (const at::Tensor& count : owners) EXPECT_TRUE(count.eq(1).all().item<bool>()) << tensor << " x " << shards;
    }
  }
}

TEST(ParameterStore, ShardsOfABucketAreItsBuffer) {
  const model::ModelDescription model = cut_description();
  ParameterStore whole = store(model, {false, false, false, false, true}, at::kBFloat16);
  whole.initialize(3);
  std::vector<at::Tensor> values, gradients;
  for (int64_t index = 0; index < 3; ++index) {
    StoreLayout layout;
    layout.shards = 3;
    layout.shard_index = index;
    ParameterStore mine(model, {false, false, false, false, true}, at::kBFloat16, at::kCPU, layout);
    mine.initialize(3);
    EXPECT_FALSE(mine.has_values(0));
    EXPECT_EQ(mine.own_values(0).numel(), mine.shard_sizes(0)[static_cast<size_t>(index)]);
    values.push_back(mine.own_values(0));
    mine.open_values(0).copy_(whole.open_values(0));
    EXPECT_TRUE(at::equal(mine.value(2), whole.value(2)));
    mine.close_values(0);

    mine.begin_step();
    mine.gradient_target(1).buffer.fill_(1);
    const at::Tensor gradient = mine.open_gradients(0);
    EXPECT_EQ(gradient.sum().item<float>(), 60);
    const std::vector<int64_t> sizes = mine.shard_sizes(0);
    int64_t begin = 0;
    for (int64_t before = 0; before < index; ++before) begin += sizes[static_cast<size_t>(before)];
    const at::Tensor own = gradient.narrow(0, begin, sizes[static_cast<size_t>(index)]);
    mine.close_gradients(0, own);
    mine.close_gradients(0, own);  // of a second micro-batch
    gradients.push_back(mine.groups()[0].gradient);
  }
  EXPECT_TRUE(at::equal(at::cat(values), whole.open_values(0)));
  EXPECT_EQ(at::cat(gradients).sum().item<float>(), 120);
}

}  // namespace
}  // namespace weft::nn
