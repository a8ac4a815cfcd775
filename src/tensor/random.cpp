#include "tensor/random.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "base/error.h"
#include "kernel/random.h"
#include "mesh/shard.h"
#include "tensor/collectives.h"
#include "tensor/rule.h"

namespace weft::tensor {
namespace {

using mesh::ElementType;
using mesh::Spec;

// Whether the rank is the one that holds a partial tensor's numbers.
bool holds_numbers(const Spec& spec, const std::vector<int>& place) {
  for (size_t axis = 0; axis < place.size(); ++axis) {
    if (spec.placements[axis].kind == mesh::PlacementKind::kPartial && place[axis] > 0) return false;
  }
  return true;
}

// Calls fill(to, first, count): `to` an fp32 tensor of numbers first to first + count - 1 of the stream.
template <typename Fill>
at::Tensor filled(const Spec& spec, const mesh::DeviceMesh& device_mesh, Fill fill) {
  const std::vector<int>& place = device_mesh.coordinates();
  const at::Tensor numbers = at::empty(mesh::local_shape(spec, place), at::kFloat);
  const at::Tensor flat = numbers.view({-1});
  for (const mesh::Run& run : mesh::runs_of(spec, place)) {
    fill(flat.narrow(0, run.local, run.size), static_cast<uint64_t>(run.global), run.size);
  }
  return numbers;
}

template <typename Fill>
DTensor random_tensor(const Spec* spec, const mesh::DeviceMesh& device_mesh, Fill fill) {
  const ElementType type = spec->element_type;
  if (type != ElementType::kFloat32 && type != ElementType::kBFloat16 && type != ElementType::kFloat64) {
    throw Error(fmt::format("random numbers for {}: the element type is f32, bf16 or f64", spec->text()));
  }
  if (!holds_numbers(*spec, device_mesh.coordinates())) return full(spec, 0, device_mesh);
  return {filled(*spec, device_mesh, fill).to(scalar_type(type)), spec};
}

}  // namespace

DTensor uniform(const Spec* spec, RandomKey key, const mesh::DeviceMesh& device_mesh) {
  return random_tensor(spec, device_mesh, [key](const at::Tensor& to, uint64_t first, int64_t /*count*/) {
    kernel::fill_uniform(to, key, first);
  });
}

DTensor normal(const Spec* spec, RandomKey key, double standard_deviation, const mesh::DeviceMesh& device_mesh) {
  return random_tensor(spec, device_mesh, [&](const at::Tensor& to, uint64_t first, int64_t count) {
    if (first % 2 == 0) return kernel::fill_normal(to, key, first, standard_deviation);
    // The pair's first number is another rank's.
    const at::Tensor longer = at::empty({count + 1}, at::kFloat);
    kernel::fill_normal(longer, key, first - 1, standard_deviation);
    to.copy_(longer.narrow(0, 1, count));
  });
}

DTensor dropout(const DTensor& x, double probability, RandomKey key, const mesh::DeviceMesh& device_mesh) {
  static const Rule rule("dropout", "... -> ...", {.linear = Linear::kEach});
  if (!(probability >= 0 && probability < 1)) {
    throw Error(fmt::format("dropout with probability {}: it is at least 0 and below 1", probability));
  }
  const Spec* spec = rule(x.spec);
  const uint32_t threshold = dropout_threshold(probability);
  const auto factor = static_cast<float>(1 / (1 - probability));
  const at::Tensor factors = filled(*x.spec, device_mesh, [&](const at::Tensor& to, uint64_t first, int64_t count) {
    // The uniform is the word's low 24 bits times 2^-24, exactly.
    kernel::fill_uniform(to, key, first);
    float* numbers = to.data_ptr<float>();
    const float bound = static_cast<float>(threshold) * 0x1p-24F;
    for (int64_t i = 0; i < count; ++i) numbers[i] = numbers[i] < bound ? factor : 0.0F;
  });
  return {at::mul(x.local, factors.to(x.local.scalar_type())), spec};
}

DTensor full(const Spec* spec, double number, const mesh::DeviceMesh& device_mesh) {
  const std::vector<int>& place = device_mesh.coordinates();
  const double own = holds_numbers(*spec, place) ? number : 0;
  return {at::full(mesh::local_shape(*spec, place), own, scalar_type(spec->element_type)), spec};
}

DTensor arange(const Spec* spec, const mesh::DeviceMesh& device_mesh) {
  const at::Tensor numbers = at::empty(mesh::local_shape(*spec, device_mesh.coordinates()), at::kLong);
  int64_t* to = numbers.data_ptr<int64_t>();
  for (const mesh::Run& run : mesh::runs_of(*spec, device_mesh.coordinates())) {
    for (int64_t i = 0; i < run.size; ++i) to[run.local + i] = run.global + i;
  }
  if (!holds_numbers(*spec, device_mesh.coordinates())) numbers.zero_();
  return {numbers.to(scalar_type(spec->element_type)), spec};
}

}  // namespace weft::tensor
