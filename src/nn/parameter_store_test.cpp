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
  EXPECT_EQ(parameters.groups()[0].parameters, (std::vector<int>{0, 2}));
  EXPECT_EQ(parameters.groups()[1].parameters, (std::vector<int>{1, 3}));
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
  parameters.begin_step();
  parameters.groups()[0].gradient.fill_(9);
  parameters.groups()[1].gradient.fill_(9);
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

}  // namespace
}  // namespace weft::nn
