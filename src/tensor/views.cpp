// Operators that move dims about: operators.h.
#include <algorithm>
#include <numeric>

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "base/error.h"
#include "mesh/device_mesh.h"
#include "mesh/shard.h"
#include "tensor/dims.h"
#include "tensor/operators.h"
#include "tensor/rule.h"

namespace weft::tensor {
namespace {

constexpr RuleOptions kLinear{.linear = Linear::kEach};

// Two dims whose elements are `one_inner` and `other_inner` times something that both share: `spec` with units in its
// dim such that every rank holds the same of both. Throws where there are none.
const mesh::Spec* with_equal_cut(const Rule& rule, mesh::Spec spec, int64_t dim, int64_t inner, const mesh::Spec& other,
                                 int64_t other_dim, int64_t other_inner) {
  const auto at = static_cast<size_t>(dim);
  const int64_t other_units = other.units.empty() ? 0 : other.units[static_cast<size_t>(other_dim)];
  spec.units.resize(spec.shape.size());
  for (const int64_t units : {int64_t{0}, spec.shape[at] / std::max(other_inner, int64_t{1}), other_units}) {
    spec.units[at] = units;
    bool equal = true;
    for (int rank = 0; rank < spec.mesh.ranks() && equal; ++rank) {
      const std::vector<int> place = mesh::coordinates_of(spec.mesh, rank);
      const Range own = mesh::shard_range(spec, place, dim), others = mesh::shard_range(other, place, other_dim);
      equal = own.begin * inner == others.begin * other_inner && own.end * inner == others.end * other_inner;
    }
    if (equal) return mesh::intern(std::move(spec));
  }
  throw Error(fmt::format("{}: a cut of dim {} of {} does not fall between whole inner ones: cut it in other units",
                          rule.name(), other_dim, other.text()));
}

// Arguments: dim, inner size. The outer of the two new dims keeps the factor.
const mesh::Spec* unflattened(const Rule& rule, Rule::Inputs inputs, const Rule::Arguments& arguments) {
  const auto dim = static_cast<size_t>(arguments[0]);
  const mesh::Spec& x = *inputs[0];
  if (arguments[1] < 1 || x.shape[dim] % arguments[1] != 0) {
    throw Error(fmt::format("{}: dim {} of {} is no multiple of {}", rule.name(), dim, x.text(), arguments[1]));
  }
  Factors factors{.inputs = {all_dims(x)}, .output = all_dims(x), .whole = {}, .output_sizes = x.shape};
  const auto place = static_cast<std::ptrdiff_t>(dim);
  factors.output.insert(factors.output.begin() + place + 1, Factors::kOne);
  factors.output_sizes[dim] /= arguments[1];
  factors.output_sizes.insert(factors.output_sizes.begin() + place + 1, arguments[1]);
  return with_equal_cut(rule, *rule.infer(inputs, factors, kLinear), arguments[0], arguments[1], x, arguments[0], 1);
}

const mesh::Spec* flattened(const Rule& rule, Rule::Inputs inputs, const Rule::Arguments& arguments) {
  const auto dim = static_cast<size_t>(arguments[0]);
  const mesh::Spec& x = *inputs[0];
  Factors factors{
      .inputs = {all_dims(x)}, .output = all_dims(x), .whole = {static_cast<int>(dim) + 1}, .output_sizes = x.shape};
  const auto place = static_cast<std::ptrdiff_t>(dim);
  const int64_t inner = x.shape[dim + 1];
  factors.output.erase(factors.output.begin() + place + 1);
  factors.output_sizes[dim] *= inner;
  factors.output_sizes.erase(factors.output_sizes.begin() + place + 1);
  return with_equal_cut(rule, *rule.infer(inputs, factors, kLinear), arguments[0], 1, x, arguments[0], inner);
}

// Arguments: the dims, four bits each, from the first at the lowest bits.
const mesh::Spec* permuted(const Rule& rule, Rule::Inputs inputs, const Rule::Arguments& arguments) {
  Factors factors{.inputs = {all_dims(*inputs[0])}, .output = {}, .whole = {}};
  for (size_t dim = 0; dim < inputs[0]->shape.size(); ++dim) {
    factors.output.push_back(static_cast<int>(arguments[0] >> (4 * dim) & 15));
  }
  return rule.infer(inputs, factors, kLinear);
}

const mesh::Spec* unsqueezed(const Rule& rule, Rule::Inputs inputs, const Rule::Arguments& arguments) {
  Factors factors{.inputs = {all_dims(*inputs[0])}, .output = all_dims(*inputs[0]), .whole = {}};
  factors.output.insert(factors.output.begin() + arguments[0], Factors::kOne);
  return rule.infer(inputs, factors, kLinear);
}

const mesh::Spec* squeezed(const Rule& rule, Rule::Inputs inputs, const Rule::Arguments& arguments) {
  if (inputs[0]->shape[static_cast<size_t>(arguments[0])] != 1) {
    throw Error(fmt::format("{}: dim {} of {} has not size 1", rule.name(), arguments[0], inputs[0]->text()));
  }
  Factors factors{
      .inputs = {all_dims(*inputs[0])}, .output = all_dims(*inputs[0]), .whole = {static_cast<int>(arguments[0])}};
  factors.output.erase(factors.output.begin() + arguments[0]);
  return rule.infer(inputs, factors, kLinear);
}

// Arguments: dim, first, count.
const mesh::Spec* narrowed(const Rule& rule, Rule::Inputs inputs, const Rule::Arguments& arguments) {
  const mesh::Spec& x = *inputs[0];
  const auto [dim, first, count] = arguments;
  if (first < 0 || count < 0 || first + count > x.shape[static_cast<size_t>(dim)]) {
    throw Error(
        fmt::format("{}: {} elements from {} on do not lie in dim {} of {}", rule.name(), count, first, dim, x.text()));
  }
  Factors factors{
      .inputs = {all_dims(x)}, .output = all_dims(x), .whole = {static_cast<int>(dim)}, .output_sizes = x.shape};
  factors.output_sizes[static_cast<size_t>(dim)] = count;
  return rule.infer(inputs, factors, kLinear);
}

const mesh::Spec* joined(const Rule& rule, Rule::Inputs inputs, const Rule::Arguments& arguments) {
  const auto dim = static_cast<size_t>(arguments[0]);
  if (inputs[0]->shape.size() != inputs[1]->shape.size()) {
    throw Error(fmt::format("{}: {} and {} have not as many dims", rule.name(), inputs[0]->text(), inputs[1]->text()));
  }
  Factors factors{.inputs = {all_dims(*inputs[0]), all_dims(*inputs[1])},
                  .output = all_dims(*inputs[0]),
                  .whole = {},
                  .output_sizes = inputs[0]->shape};
  const int second = static_cast<int>(inputs[0]->shape.size());  // the dim of the second is another factor
  factors.inputs[1][dim] = second;
  factors.whole = {static_cast<int>(dim), second};
  factors.output_sizes[dim] += inputs[1]->shape[dim];
  return rule.infer(inputs, factors, {.linear = Linear::kTogether});
}

// x, index [count].
const mesh::Spec* selected(const Rule& rule, Rule::Inputs inputs, const Rule::Arguments& arguments) {
  const int index = static_cast<int>(inputs[0]->shape.size());
  Factors factors{.inputs = {all_dims(*inputs[0]), {index}},
                  .output = all_dims(*inputs[0]),
                  .whole = {static_cast<int>(arguments[0])}};
  factors.output[static_cast<size_t>(arguments[0])] = index;
  return rule.infer(inputs, factors, {.linear = Linear::kEach, .linear_inputs = 0b01});
}

}  // namespace

DTensor transpose(const DTensor& x, int64_t one, int64_t other) {
  std::vector<int64_t> dims(x.spec->shape.size());
  std::iota(dims.begin(), dims.end(), 0);
  std::swap(dims[static_cast<size_t>(dim_of(x, one))], dims[static_cast<size_t>(dim_of(x, other))]);
  return permute(x, dims);
}

DTensor permute(const DTensor& x, const std::vector<int64_t>& dims) {
  static const Rule rule("permute", permuted);
  int64_t packed = 0;
  for (size_t i = 0; i < dims.size(); ++i) packed |= dims[i] << (4 * i);
  const mesh::Spec* spec = rule.with({packed}, x.spec);
  return {x.local.permute(dims), spec};
}

DTensor unsqueeze(const DTensor& x, int64_t dim) {
  static const Rule rule("unsqueeze", unsqueezed);
  dim = dim_of(x, dim, static_cast<int64_t>(x.spec->shape.size()) + 1);
  const mesh::Spec* spec = rule.with({dim}, x.spec);
  return {x.local.unsqueeze(dim), spec};
}

DTensor squeeze(const DTensor& x, int64_t dim) {
  static const Rule rule("squeeze", squeezed);
  dim = dim_of(x, dim);
  const mesh::Spec* spec = rule.with({dim}, x.spec);
  return {x.local.squeeze(dim), spec};
}

DTensor unflatten(const DTensor& x, int64_t dim, int64_t inner) {
  static const Rule rule("unflatten", unflattened);
  dim = dim_of(x, dim);
  const mesh::Spec* spec = rule.with({dim, inner}, x.spec);
  std::vector<int64_t> shape = x.local.sizes().vec();
  shape[static_cast<size_t>(dim)] /= inner;
  shape.insert(shape.begin() + dim + 1, inner);
  return {x.local.reshape(shape), spec};
}

DTensor flatten(const DTensor& x, int64_t dim) {
  static const Rule rule("flatten", flattened);
  dim = dim_of(x, dim);
  (void)dim_of(x, dim + 1);
  const mesh::Spec* spec = rule.with({dim}, x.spec);
  std::vector<int64_t> shape = x.local.sizes().vec();
  shape[static_cast<size_t>(dim)] *= shape[static_cast<size_t>(dim) + 1];
  shape.erase(shape.begin() + dim + 1);
  return {x.local.reshape(shape), spec};
}

DTensor narrow(const DTensor& x, int64_t dim, int64_t first, int64_t count) {
  static const Rule rule("narrow", narrowed);
  dim = dim_of(x, dim);
  const mesh::Spec* spec = rule.with({dim, first, count}, x.spec);
  return {x.local.narrow(dim, first, count), spec};
}

DTensor cat(const DTensor& a, const DTensor& b, int64_t dim) {
  static const Rule rule("cat", joined);
  dim = dim_of(a, dim);
  const mesh::Spec* spec = rule.with({dim}, a.spec, b.spec);
  return {at::cat({a.local, b.local}, dim), spec};
}

std::vector<DTensor> split(const DTensor& x, int64_t dim, int64_t parts) {
  dim = dim_of(x, dim);
  const int64_t size = x.spec->shape[static_cast<size_t>(dim)];
  if (parts < 1 || size % parts != 0) {
    throw Error(fmt::format("split: dim {} of {} is no multiple of {}", dim, x.spec->text(), parts));
  }
  std::vector<DTensor> all;
  for (int64_t i = 0; i < parts; ++i) all.push_back(narrow(x, dim, i * (size / parts), size / parts));
  return all;
}

DTensor index_select(const DTensor& x, int64_t dim, const DTensor& index) {
  static const Rule rule("index_select", selected);
  dim = dim_of(x, dim);
  const mesh::Spec* spec = rule.with({dim}, x.spec, index.spec);
  return {at::index_select(x.local, dim, index.local), spec};
}

}  // namespace weft::tensor
