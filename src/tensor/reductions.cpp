// Operators over a dim: operators.h.
#include <cmath>

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include "base/error.h"
#include "mesh/shard.h"
#include "tensor/collectives.h"
#include "tensor/dims.h"
#include "tensor/operators.h"
#include "tensor/rule.h"

namespace weft::tensor {
namespace {

// Arguments: the dim.
const mesh::Spec* dropped_of(const Rule& rule, Rule::Inputs inputs, int dim, std::vector<int> whole) {
  const std::vector<int> dims = all_dims(*inputs[0]);
  std::vector<int> rest = dims;
  rest.erase(rest.begin() + dim);
  return rule.infer(inputs, {.inputs = {dims}, .output = rest, .whole = std::move(whole)});
}

const mesh::Spec* dropped(const Rule& rule, Rule::Inputs inputs, const Rule::Arguments& arguments) {
  return dropped_of(rule, inputs, static_cast<int>(arguments[0]), {});
}

const mesh::Spec* dropped_whole(const Rule& rule, Rule::Inputs inputs, const Rule::Arguments& arguments) {
  const int dim = static_cast<int>(arguments[0]);
  return dropped_of(rule, inputs, dim, {dim});
}

const mesh::Spec* kept_whole(const Rule& rule, Rule::Inputs inputs, const Rule::Arguments& arguments) {
  const std::vector<int> dims = all_dims(*inputs[0]);
  return rule.infer(inputs, {.inputs = {dims}, .output = dims, .whole = {static_cast<int>(arguments[0])}});
}

}  // namespace

DTensor sum(const DTensor& x, int64_t dim) {
  static const Rule rule("sum", dropped, {.linear = Linear::kEach});
  dim = dim_of(x, dim);
  const mesh::Spec* spec = rule.with({dim}, x.spec);
  return {at::sum(x.local, dim), spec};
}

DTensor sum(const DTensor& x) {
  static const Rule rule("sum", "... -> ", {.linear = Linear::kEach});
  const mesh::Spec* spec = rule(x.spec);
  return {at::sum(x.local), spec};
}

// By the whole size: means of parts would have to be weighed.
DTensor mean(const DTensor& x, int64_t dim) {
  static const Rule rule("mean", dropped, {.linear = Linear::kEach});
  dim = dim_of(x, dim);
  const mesh::Spec* spec = rule.with({dim}, x.spec);
  return {at::div(at::sum(x.local, dim), static_cast<double>(x.spec->shape[static_cast<size_t>(dim)])), spec};
}

DTensor mean(const DTensor& x) {
  static const Rule rule("mean", "... -> ", {.linear = Linear::kEach});
  const mesh::Spec* spec = rule(x.spec);
  return {at::div(at::sum(x.local), static_cast<double>(mesh::element_count(x.spec->shape))), spec};
}

DTensor square_sum(const DTensor& x) {
  static const Rule rule("square_sum", "... -> ");
  const mesh::Spec* spec = rule(x.spec);
  return {at::sum(at::square(x.local)), spec};
}

DTensor amax(const DTensor& x, int64_t dim) {
  static const Rule rule("amax", dropped_whole);
  dim = dim_of(x, dim);
  const mesh::Spec* spec = rule.with({dim}, x.spec);
  return {at::amax(x.local, dim), spec};
}

DTensor softmax(const DTensor& x, int64_t dim) {
  static const Rule rule("softmax", kept_whole);
  dim = dim_of(x, dim);
  const mesh::Spec* spec = rule.with({dim}, x.spec);
  return {at::softmax(x.local, dim), spec};
}

DTensor log_softmax(const DTensor& x, int64_t dim) {
  static const Rule rule("log_softmax", kept_whole);
  dim = dim_of(x, dim);
  const mesh::Spec* spec = rule.with({dim}, x.spec);
  return {at::log_softmax(x.local, dim), spec};
}

DTensor cumulative_sum(const DTensor& x, int64_t dim) {
  static const Rule rule("cumulative_sum", kept_whole, {.linear = Linear::kEach});
  dim = dim_of(x, dim);
  const mesh::Spec* spec = rule.with({dim}, x.spec);
  return {at::cumsum(x.local, dim), spec};
}

DTensor rms_norm(const DTensor& x, const DTensor& weight, double epsilon) {
  static const Rule rule("rms_norm", "... h, h -> ... h",
                         {.linear = Linear::kEach, .linear_inputs = 0b10, .whole = "h"});
  const mesh::Spec* spec = rule(x.spec, weight.spec);
  return {at::rms_norm(x.local, weight.local.sizes(), weight.local, epsilon), spec};
}

DTensor layer_norm(const DTensor& x, const DTensor& weight, const DTensor& bias, double epsilon) {
  static const Rule rule("layer_norm", "... h, h, h -> ... h",
                         {.linear = Linear::kTogether, .linear_inputs = 0b110, .whole = "h"});
  const mesh::Spec* spec = rule(x.spec, weight.spec, bias.spec);
  return {at::layer_norm(x.local, weight.local.sizes(), weight.local, bias.local, epsilon), spec};
}

double total_norm(std::span<const DTensor> tensors, const comm::Groups& groups) {
  const c10::NoGradGuard no_grad;
  const std::vector<int>& place = groups.device_mesh().coordinates();
  const at::Tensor total = at::zeros({}, at::kDouble);
  for (const DTensor& tensor : tensors) {
    bool counts = true;
    for (size_t axis = 0; axis < place.size(); ++axis) {
      const mesh::PlacementKind kind = tensor.spec->placements[axis].kind;
      if (kind == mesh::PlacementKind::kPartial) {
        throw Error(fmt::format("total_norm: {} is partial on axis {}: redistribute it first", tensor.spec->text(),
                                tensor.spec->mesh.axes[axis].name));
      }
      const bool cut = kind == mesh::PlacementKind::kShard || kind == mesh::PlacementKind::kRagged;
      if (!cut && place[axis] > 0) counts = false;  // the first rank of the axis counts what all of them have
    }
    if (counts) total.add_(at::sum(at::square(tensor.local.to(at::kDouble))));
  }
  const mesh::AxisSet all = mesh::axis_bit(place.size()) - 1;
  if (all != 0) all_reduce_(total, groups.group(all), comm::Reduction::kSum, "norm");
  return std::sqrt(total.item<double>());
}

}  // namespace weft::tensor
