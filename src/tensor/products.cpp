// Products of sharded tensors: operators.h.
#include <ATen/ATen.h>

#include "mesh/shard.h"
#include "tensor/operators.h"
#include "tensor/rule.h"

namespace weft::tensor {

DTensor mm(const DTensor& a, const DTensor& b) {
  static const Rule rule("mm", "m k, k n -> m n", {.linear = Linear::kEach});
  const mesh::Spec* spec = rule(a.spec, b.spec);
  return {at::mm(a.local, b.local), spec};
}

DTensor bmm(const DTensor& a, const DTensor& b) {
  static const Rule rule("bmm", "b m k, b k n -> b m n", {.linear = Linear::kEach});
  const mesh::Spec* spec = rule(a.spec, b.spec);
  return {at::bmm(a.local, b.local), spec};
}

DTensor linear(const DTensor& x, const DTensor& weight) {
  static const Rule rule("linear", "... k, n k -> ... n", {.linear = Linear::kEach});
  const mesh::Spec* spec = rule(x.spec, weight.spec);
  return {at::linear(x.local, weight.local), spec};
}

DTensor linear(const DTensor& x, const DTensor& weight, const DTensor& bias) {
  static const Rule rule("linear with bias", "... k, n k, n -> ... n", {.whole = "k"});
  const mesh::Spec* spec = rule(x.spec, weight.spec, bias.spec);
  return {at::linear(x.local, weight.local, bias.local), spec};
}

DTensor causal_attention(const DTensor& query, const DTensor& key, const DTensor& value) {
  static const Rule rule("causal_attention", "b h s d, b h t d, b h t e -> b h s e",
                         {.linear = Linear::kEach, .linear_inputs = 0b100, .whole = "s t d"});
  const mesh::Spec* spec = rule(query.spec, key.spec, value.spec);
  return {at::scaled_dot_product_attention(query.local, key.local, value.local, {}, 0.0, true), spec};
}

DTensor rotate(const DTensor& x, const DTensor& cosine, const DTensor& sine) {
  static const Rule rule("rotate", "b s h d, s d, s d -> b s h d",
                         {.linear = Linear::kEach, .linear_inputs = 0b001, .whole = "d"});
  const mesh::Spec* spec = rule(x.spec, cosine.spec, sine.spec);
  const std::vector<at::Tensor> halves = x.local.chunk(2, -1);
  const at::Tensor turned = at::cat({-halves[1], halves[0]}, -1);
  return {x.local * cosine.local.unsqueeze(1) + turned * sine.local.unsqueeze(1), spec};
}

DTensor embedding(const DTensor& ids, const DTensor& weight, const mesh::DeviceMesh& device_mesh) {
  static const Rule rule("embedding", "..., v d -> ... d",
                         {.linear = Linear::kEach, .linear_inputs = 0b10, .type_of = 1});
  const mesh::Spec* spec = rule(ids.spec, weight.spec);
  const Range rows = mesh::shard_range(*weight.spec, device_mesh.coordinates(), 0);
  if (rows.size() == weight.spec->shape[0]) return {at::embedding(weight.local, ids.local), spec};
  if (rows.size() == 0) {
    // Nothing to look up; the product with an empty matrix keeps the weight in the graph.
    std::vector<int64_t> shape = ids.local.sizes().vec();
    shape.push_back(0);
    return {at::matmul(at::zeros(shape, weight.local.options()), weight.local), spec};
  }
  const at::Tensor own = at::logical_and(ids.local >= rows.begin, ids.local < rows.end);
  const at::Tensor places = at::where(own, ids.local - rows.begin, 0);
  return {at::embedding(weight.local, places) * own.unsqueeze(-1).to(weight.local.scalar_type()), spec};
}

}  // namespace weft::tensor
