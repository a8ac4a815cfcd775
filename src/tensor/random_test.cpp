// What a rank holds is its part of what one device would hold, bit by bit.
#include "tensor/random.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "mesh/shard.h"
#include "tensor/collectives.h"
#include "tensor/operators.h"
#include "tensor/test_shards.h"

namespace weft::tensor {
namespace {

using mesh::Mesh;
using mesh::Spec;

constexpr RandomKey kKey{42, 7};
const std::vector<Mesh> kMeshes = {
    {{{"tp", 1}}}, {{{"tp", 2}}}, {{{"tp", 3}}}, {{{"tp", 4}}}, {{{"dp", 2}, {"tp", 2}}}, {{{"dp", 2}, {"tp", 3}}}};
const std::vector<std::vector<int64_t>> kShapes = {{7, 5, 3}, {1, 13}, {11}, {2, 3, 2, 5}, {17, 19}, {4, 8}};

using Made = std::function<DTensor(const Spec*, const mesh::DeviceMesh&)>;

// Of every rank, for every choice of a placement an axis.
void check_parts(const Mesh& mesh, const std::vector<int64_t>& shape, mesh::ElementType type, const Made& make) {
  const Spec* plain = mesh::intern({.shape = shape, .element_type = type});
  const at::Tensor whole = make(plain, mesh::DeviceMesh({}, 0)).local;
  std::vector<mesh::Placement> kinds = {kR, kI, kP};
  for (size_t dim = 0; dim < shape.size(); ++dim) kinds.push_back(shard(static_cast<int8_t>(dim)));
  std::vector<size_t> chosen(mesh.axes.size(), 0);
  while (true) {
    Spec spec = *plain;
    spec.mesh = mesh;
    for (const size_t kind : chosen) spec.placements.push_back(kinds[kind]);
    const Spec* placed = mesh::intern(spec);
    for (int rank = 0; rank < mesh.ranks(); ++rank) {
      const mesh::DeviceMesh device_mesh(mesh, rank);
      const DTensor part = make(placed, device_mesh);
      const DTensor expected = distribute(whole, placed, device_mesh);
      ASSERT_EQ(part.local.scalar_type(), whole.scalar_type());
      ASSERT_TRUE(at::equal(part.local, expected.local)) << placed->text() << ", rank " << rank;
    }
    size_t axis = 0;
    while (axis < chosen.size() && ++chosen[axis] == kinds.size()) chosen[axis++] = 0;
    if (axis == chosen.size()) return;
  }
}

void check_everywhere(const Made& make) {
  for (const Mesh& mesh : kMeshes) {
    for (const std::vector<int64_t>& shape : kShapes) {
      for (const auto type : {mesh::ElementType::kFloat32, mesh::ElementType::kBFloat16, mesh::ElementType::kFloat64}) {
        check_parts(mesh, shape, type, make);
      }
    }
  }
}

DTensor uniforms(const Spec* spec, const mesh::DeviceMesh& mesh) { return uniform(spec, kKey, mesh); }
DTensor normals(const Spec* spec, const mesh::DeviceMesh& mesh) { return normal(spec, kKey, 0.5, mesh); }
DTensor dropped(const Spec* spec, const mesh::DeviceMesh& mesh) {
  const at::Tensor whole = (whole_numbers(spec->shape, 3) + 20).to(scalar_type(spec->element_type));
  return dropout(distribute(whole, spec, mesh), 0.2, kKey, mesh);
}

TEST(Random, UniformsDoNotDependOnThePlacement) { check_everywhere(uniforms); }
TEST(Random, NormalsDoNotDependOnThePlacement) { check_everywhere(normals); }
TEST(Random, DropoutDoesNotDependOnThePlacement) { check_everywhere(dropped); }

TEST(Random, RaggedPartsToo) {
  Spec spec{.mesh = {{{"fsdp", 3}}},
            .placements = {{mesh::PlacementKind::kRagged}},
            .ragged_ends = {5, 5, 21},
            .shape = {7, 3}};
  const Spec* ragged = mesh::intern(spec);
  const Spec* plain = mesh::intern({.shape = {7, 3}});
  for (const Made& make : {Made(uniforms), Made(normals)}) {
    const at::Tensor whole = make(plain, mesh::DeviceMesh({}, 0)).local.view({-1});
    EXPECT_TRUE(at::equal(make(ragged, {spec.mesh, 0}).local, whole.slice(0, 0, 5)));
    EXPECT_EQ(make(ragged, {spec.mesh, 1}).local.numel(), 0);
    EXPECT_TRUE(at::equal(make(ragged, {spec.mesh, 2}).local, whole.slice(0, 5, 21)));
  }
}

TEST(Random, BeyondAMillionElements) {
  const Mesh mesh{{{"tp", 3}}};
  for (const Made& make : {Made(uniforms), Made(normals), Made(dropped)}) {
    for (const int8_t dim : {int8_t{0}, int8_t{1}}) {
      const std::vector<int64_t> shape = {1031, 1033};
      const at::Tensor whole = make(mesh::intern({.shape = shape}), mesh::DeviceMesh({}, 0)).local;
      const Spec* spec = mesh::intern({.mesh = mesh, .placements = {shard(dim)}, .shape = shape});
      const mesh::DeviceMesh last(mesh, 2);
      EXPECT_TRUE(at::equal(make(spec, last).local, distribute(whole, spec, last).local));
    }
  }
}

// ATen's stream of the same key: a shard that begins at a multiple of four has the key with a later offset.
TEST(Random, UniformsAreTheStreamOfATen) {
  const at::Tensor whole = uniform(mesh::intern({.shape = {40, 12}}), kKey, mesh::DeviceMesh({}, 0)).local;
  const Mesh mesh{{{"tp", 4}}};
  const Spec* spec = mesh::intern({.mesh = mesh, .placements = {shard(0)}, .shape = {40, 12}});
  for (int rank = 0; rank < 4; ++rank) {
    const at::Tensor key = at::empty({2}, at::kUInt64);
    uint64_t* words = static_cast<uint64_t*>(key.data_ptr());
    words[0] = kKey.seed;
    words[1] = kKey.offset + static_cast<uint64_t>(rank) * 10 * 12 / 4;
    at::Tensor expected = at::empty({10, 12});
    at::_philox_uniform_(expected, key);
    EXPECT_TRUE(at::equal(uniform(spec, kKey, {mesh, rank}).local, expected));
    EXPECT_TRUE(at::equal(whole.narrow(0, rank * 10, 10), expected));
  }
}

TEST(Random, DropoutKeepsWhatItScales) {
  const mesh::DeviceMesh alone({}, 0);
  const Spec* spec = mesh::intern({.shape = {100, 100}});
  const at::Tensor kept = dropout(full(spec, 1, alone), 0.25, kKey, alone).local;
  EXPECT_TRUE(at::logical_or(kept == 0, kept == static_cast<float>(1 / 0.75)).all().item<bool>());
  EXPECT_NEAR((kept > 0).to(at::kDouble).mean().item<double>(), 0.75, 0.02);
  EXPECT_TRUE(at::equal(dropout(full(spec, 3, alone), 0, kKey, alone).local, full(spec, 3, alone).local));
}

TEST(Random, TheGradientOfDropoutIsDropped) {
  const Mesh mesh{{{"tp", 2}}};
  const Spec* spec = mesh::intern({.mesh = mesh, .placements = {shard(1)}, .shape = {6, 5}});
  const mesh::DeviceMesh second(mesh, 1);
  DTensor x = full(spec, 2, second);
  x.local.set_requires_grad(true);
  const DTensor y = dropout(x, 0.5, kKey, second);
  sum(y).local.backward();
  EXPECT_TRUE(at::equal(x.local.grad() * 2, y.local));
}

TEST(Random, ConstantsAndPlaces) {
  const Mesh mesh{{{"tp", 2}}};
  const Spec* spec = mesh::intern(
      {.mesh = mesh, .placements = {shard(1)}, .shape = {2, 3}, .element_type = mesh::ElementType::kInt64});
  EXPECT_TRUE(at::equal(arange(spec, {mesh, 1}).local, at::tensor({int64_t{2}, int64_t{5}}).view({2, 1})));
  EXPECT_TRUE(at::equal(full(spec, 4, {mesh, 0}).local, at::full({2, 2}, 4, at::kLong)));
}

TEST(Random, WrongTypesAreRefused) {
  EXPECT_THROW((void)uniform(mesh::intern({.shape = {2}, .element_type = mesh::ElementType::kInt64}), kKey,
                             mesh::DeviceMesh({}, 0)),
               Error);
  const mesh::DeviceMesh alone({}, 0);
  EXPECT_THROW((void)dropout(full(mesh::intern({.shape = {2}}), 1, alone), 1.0, kKey, alone), Error);
}

}  // namespace
}  // namespace weft::tensor
