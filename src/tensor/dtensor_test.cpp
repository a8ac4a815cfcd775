#include "tensor/dtensor.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "comm/recorder.h"
#include "comm/threads.h"
#include "tensor/operators.h"
#include "tensor/test_shards.h"

namespace weft::tensor {
namespace {

using mesh::Mesh;

const Mesh kMesh{{{"tp", 2}}};

std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

DTensor leaf(const at::Tensor& whole, std::vector<mesh::Placement> placements, const comm::Groups& groups) {
  DTensor tensor =
      distribute(whole, spec_of(whole, groups.device_mesh().mesh(), std::move(placements)), groups.device_mesh());
  tensor.local.set_requires_grad(true);
  return tensor;
}

// Megatron's pair of products: x is whole, the first weight is cut by rows of its output, the second by its input.
TEST(DTensor, ParallelProductsHaveTheGradientsOfOneDevice) {
  const at::Tensor x = whole_numbers({4, 6}, 1), up = whole_numbers({5, 6}, 2), down = whole_numbers({3, 5}, 3);
  at::Tensor x1 = x.clone().set_requires_grad(true), up1 = up.clone().set_requires_grad(true),
             down1 = down.clone().set_requires_grad(true);
  const at::Tensor loss1 = at::square(at::relu(x1.matmul(up1.t())).matmul(down1.t())).sum();
  loss1.backward();
  comm::Recorder recorder;
  comm::run_ranks(2, [&](comm::World& world) {
    const auto counted = comm::recorded(world, recorder);
    const comm::Groups groups(*counted, kMesh);
    const DTensor x2 = leaf(x, {kI}, groups), up2 = leaf(up, {shard(0)}, groups),
                  down2 = leaf(down, {shard(1)}, groups);
    const DTensor hidden = relu(linear(redistribute(x2, {kR}, groups, "x"), up2));
    const DTensor y = redistribute(linear(hidden, down2), {kI}, groups, "y");
    const DTensor loss = sum(square(y));
    backward(loss);
    EXPECT_EQ(loss.local.item<double>(), loss1.item<double>());
    const int rank = world.rank();
    for (const auto& [tensor, whole] : {std::pair(x2, x1), std::pair(up2, up1), std::pair(down2, down1)}) {
      const DTensor gradient = gradient_of(tensor);
      EXPECT_TRUE(at::equal(gradient.local, part_for(whole.grad(), *gradient.spec, rank, 0))) << tensor.spec->text();
    }
  });
  const comm::Traffic expected = {{{"tp", comm::Operation::kAllReduce, "y"}, {2, 2 * 12 * 8}},
                                  {{"tp", comm::Operation::kAllReduce, "gradient of x"}, {2, 2 * 24 * 8}}};
  EXPECT_EQ(comm::difference(expected, recorder.traffic()), "");
}

TEST(DTensor, AReplicatedLeafHasAPartialGradient) {
  comm::run_ranks(2, [](comm::World& world) {
    const comm::Groups groups(world, kMesh);
    const DTensor weight = leaf(whole_numbers({3}, 1), {kR}, groups);
    const DTensor x = leaf(whole_numbers({4, 3}, 2), {shard(0)}, groups);
    backward(redistribute(sum(mul(x, weight)), {kI}, groups));
    const DTensor gradient = gradient_of(weight);
    EXPECT_EQ(gradient.spec->text(), "f64[3] {tp: partial}");
    EXPECT_TRUE(at::equal(gather(gradient, groups), whole_numbers({4, 3}, 2).sum(0)));
  });
}

TEST(DTensor, MissingRedistributionsAreErrorsThatNameThem) {
  comm::run_ranks(2, [](comm::World& world) {
    const comm::Groups groups(world, kMesh);
    const at::Tensor whole = whole_numbers({4, 4}, 1);
    const DTensor replicated = leaf(whole, {kR}, groups), same = leaf(whole, {kI}, groups),
                  rows = leaf(whole, {shard(0)}, groups), summed = leaf(whole, {kP}, groups);
    EXPECT_EQ(message_of([&] { (void)add(rows, same); }),
              "add: on axis tp there is no rule for input 2, f64[4, 4] {tp: invariant} beside input 1, f64[4, 4] {tp: "
              "shard(0)}: redistribute input 2 to {tp: replicate} first");
    EXPECT_EQ(message_of([&] { (void)mm(replicated, rows); }),
              "mm: on axis tp there is no rule for input 1, f64[4, 4] {tp: replicate} beside input 2, f64[4, 4] {tp: "
              "shard(0)}: redistribute input 1 to {tp: shard(1)} first");
    EXPECT_EQ(message_of([&] { (void)relu(summed); }),
              "relu: on axis tp there is no rule for input 1, f64[4, 4] {tp: partial}: "
              "redistribute input 1 to {tp: replicate} first");
    EXPECT_EQ(
        message_of([&] { (void)softmax(rows, 0); }),
        "softmax: on axis tp there is no rule for input 1, f64[4, 4] {tp: shard(0)}: redistribute input 1 to {tp: "
        "replicate} first");
    EXPECT_EQ(message_of([&] { backward(sum(rows)); }),
              "the loss f64[] {tp: partial} has no gradient to begin with: redistribute it to {tp: invariant} first");
    EXPECT_NE(message_of([&] { (void)mm(replicated, leaf(whole_numbers({3, 4}, 1), {kR}, groups)); }), "no error");
    const DTensor elsewhere = leaf(whole, {kR}, groups);
    EXPECT_NE(message_of([&] { (void)add(rows, {elsewhere.local, mesh::intern({.shape = {4, 4}})}); }), "no error");
  });
}

TEST(DTensor, TheUserMayFollowTheMessage) {
  comm::run_ranks(2, [](comm::World& world) {
    const comm::Groups groups(world, kMesh);
    const at::Tensor whole = whole_numbers({5, 4}, 1);
    const DTensor rows = leaf(whole, {shard(0)}, groups), same = leaf(whole, {kI}, groups);
    const DTensor fixed = redistribute(redistribute(same, "tp", kR, groups), "tp", shard(0), groups);
    EXPECT_TRUE(at::equal(gather(add(rows, fixed), groups), whole * 2));
  });
}

// Logits cut in the vocabulary, unevenly, and in the rows as well: the loss and its gradient are those of one device.
TEST(DTensor, CrossEntropyOfACutVocabulary) {
  const Mesh mesh{{{"dp", 2}, {"tp", 3}}};
  for (const int64_t vocabulary : {7, 2}) {
    const at::Tensor logits = whole_numbers({5, vocabulary}, 1) / 4;
    const at::Tensor targets = at::remainder(at::arange(5), vocabulary);
    at::Tensor logits1 = logits.clone().set_requires_grad(true);
    const at::Tensor losses1 = -at::log_softmax(logits1, 1).gather(1, targets.unsqueeze(1)).squeeze(1);
    (losses1 * (at::arange(5) + 1)).sum().backward();
    comm::run_ranks(6, [&](comm::World& world) {
      const comm::Groups groups(world, mesh);
      const DTensor logits2 = leaf(logits, {shard(0), shard(1)}, groups);
      const DTensor targets2 = distribute(targets, spec_of(targets, mesh, {shard(0), kR}), groups.device_mesh());
      const DTensor losses = cross_entropy(logits2, targets2, groups);
      EXPECT_EQ(losses.spec->text(), "f64[5] {dp: shard(0), tp: invariant}");
      const at::Tensor weights = (at::arange(5) + 1).to(at::kDouble);
      const DTensor weight = distribute(weights, losses.spec, groups.device_mesh());
      backward(redistribute(sum(mul(losses, weight)), {kI, kI}, groups));
      EXPECT_TRUE(at::allclose(gather(losses, groups), losses1));
      EXPECT_TRUE(at::allclose(gather(gradient_of(logits2), groups), logits1.grad(), 1e-9, 1e-12));
    });
  }
}

TEST(DTensor, TheNormOfCutAndWholeTensors) {
  const Mesh mesh{{{"dp", 2}, {"tp", 2}}};
  const at::Tensor one = whole_numbers({5, 3}, 1), other = whole_numbers({4}, 2);
  const double expected = std::sqrt((at::square(one).sum() + at::square(other).sum()).item<double>());
  comm::run_ranks(4, [&](comm::World& world) {
    const comm::Groups groups(world, mesh);
    const std::vector<DTensor> tensors = {leaf(one, {shard(0), kI}, groups), leaf(other, {kI, shard(0)}, groups)};
    EXPECT_DOUBLE_EQ(total_norm(tensors, groups), expected);
    const std::vector<DTensor> partial = {leaf(one, {kP, kI}, groups)};
    EXPECT_THROW((void)total_norm(partial, groups), Error);
  });
}

// Heads of a matrix in 3 heads of 2 columns: a cut must fall between heads, and stays one of heads.
TEST(DTensor, CutsTravelThroughViews) {
  comm::run_ranks(2, [](comm::World& world) {
    const comm::Groups groups(world, kMesh);
    const at::Tensor whole = whole_numbers({5, 6}, 1);
    const auto cut = [&](int64_t units) {
      return distribute(whole, spec_of(whole, kMesh, {shard(1)}, {0, units}), groups.device_mesh());
    };
    const DTensor heads = unflatten(cut(3), 1, 2);
    EXPECT_EQ(heads.spec->text(), "f64[5, 3, 2] {tp: shard(1)}");
    EXPECT_TRUE(at::equal(gather(heads, groups), whole.view({5, 3, 2})));
    EXPECT_EQ(flatten(heads, 1).spec, cut(3).spec);
    EXPECT_NE(message_of([&] { (void)unflatten(cut(0), 1, 2); }).find("does not fall between whole inner ones"),
              std::string::npos);
    EXPECT_NE(message_of([&] { (void)add(cut(3), cut(0)); }).find("is cut in other units"), std::string::npos);
  });
}

}  // namespace
}  // namespace weft::tensor
