// Operators element by element: operators.h.
#include <ATen/ATen.h>

#include "tensor/collectives.h"
#include "tensor/dims.h"
#include "tensor/operators.h"
#include "tensor/rule.h"

namespace weft::tensor {

DTensor add(const DTensor& a, const DTensor& b) {
  static const Rule rule("add", "..., ... -> ...", {.linear = Linear::kTogether});
  const mesh::Spec* spec = rule(a.spec, b.spec);
  return {at::add(a.local, b.local), spec};
}

DTensor sub(const DTensor& a, const DTensor& b) {
  static const Rule rule("sub", "..., ... -> ...", {.linear = Linear::kTogether});
  const mesh::Spec* spec = rule(a.spec, b.spec);
  return {at::sub(a.local, b.local), spec};
}

DTensor mul(const DTensor& a, const DTensor& b) {
  static const Rule rule("mul", "..., ... -> ...", {.linear = Linear::kEach});
  const mesh::Spec* spec = rule(a.spec, b.spec);
  return {at::mul(a.local, b.local), spec};
}

DTensor div(const DTensor& a, const DTensor& b) {
  static const Rule rule("div", "..., ... -> ...", {.linear = Linear::kEach, .linear_inputs = 0b01});
  const mesh::Spec* spec = rule(a.spec, b.spec);
  return {at::div(a.local, b.local), spec};
}

DTensor maximum(const DTensor& a, const DTensor& b) {
  static const Rule rule("maximum", "..., ... -> ...");
  const mesh::Spec* spec = rule(a.spec, b.spec);
  return {at::maximum(a.local, b.local), spec};
}

DTensor neg(const DTensor& x) {
  static const Rule rule("neg", "... -> ...", {.linear = Linear::kEach});
  const mesh::Spec* spec = rule(x.spec);
  return {at::neg(x.local), spec};
}

DTensor scale(const DTensor& x, double factor) {
  static const Rule rule("scale", "... -> ...", {.linear = Linear::kEach});
  const mesh::Spec* spec = rule(x.spec);
  return {at::mul(x.local, factor), spec};
}

DTensor detach(const DTensor& x) {
  static const Rule rule("detach", "... -> ...", {.linear = Linear::kEach});
  const mesh::Spec* spec = rule(x.spec);
  return {x.local.detach(), spec};
}

DTensor clone(const DTensor& x) {
  static const Rule rule("clone", "... -> ...", {.linear = Linear::kEach});
  const mesh::Spec* spec = rule(x.spec);
  return {x.local.clone(at::MemoryFormat::Contiguous), spec};
}

DTensor shift(const DTensor& x, double number) {
  static const Rule rule("shift", "... -> ...");
  const mesh::Spec* spec = rule(x.spec);
  return {at::add(x.local, number), spec};
}

DTensor power(const DTensor& x, double exponent) {
  static const Rule rule("power", "... -> ...");
  const mesh::Spec* spec = rule(x.spec);
  return {at::pow(x.local, exponent), spec};
}

DTensor square(const DTensor& x) {
  static const Rule rule("square", "... -> ...");
  const mesh::Spec* spec = rule(x.spec);
  return {at::square(x.local), spec};
}

DTensor exp(const DTensor& x) {
  static const Rule rule("exp", "... -> ...");
  const mesh::Spec* spec = rule(x.spec);
  return {at::exp(x.local), spec};
}

DTensor log(const DTensor& x) {
  static const Rule rule("log", "... -> ...");
  const mesh::Spec* spec = rule(x.spec);
  return {at::log(x.local), spec};
}

DTensor sqrt(const DTensor& x) {
  static const Rule rule("sqrt", "... -> ...");
  const mesh::Spec* spec = rule(x.spec);
  return {at::sqrt(x.local), spec};
}

DTensor rsqrt(const DTensor& x) {
  static const Rule rule("rsqrt", "... -> ...");
  const mesh::Spec* spec = rule(x.spec);
  return {at::rsqrt(x.local), spec};
}

DTensor abs(const DTensor& x) {
  static const Rule rule("abs", "... -> ...");
  const mesh::Spec* spec = rule(x.spec);
  return {at::abs(x.local), spec};
}

DTensor tanh(const DTensor& x) {
  static const Rule rule("tanh", "... -> ...");
  const mesh::Spec* spec = rule(x.spec);
  return {at::tanh(x.local), spec};
}

DTensor sigmoid(const DTensor& x) {
  static const Rule rule("sigmoid", "... -> ...");
  const mesh::Spec* spec = rule(x.spec);
  return {at::sigmoid(x.local), spec};
}

DTensor relu(const DTensor& x) {
  static const Rule rule("relu", "... -> ...");
  const mesh::Spec* spec = rule(x.spec);
  return {at::relu(x.local), spec};
}

DTensor silu(const DTensor& x) {
  static const Rule rule("silu", "... -> ...");
  const mesh::Spec* spec = rule(x.spec);
  return {at::silu(x.local), spec};
}

DTensor gelu(const DTensor& x) {
  static const Rule rule("gelu", "... -> ...");
  const mesh::Spec* spec = rule(x.spec);
  return {at::gelu(x.local), spec};
}

DTensor swiglu(const DTensor& gate, const DTensor& up) {
  static const Rule rule("swiglu", "..., ... -> ...", {.linear = Linear::kEach, .linear_inputs = 0b10});
  const mesh::Spec* spec = rule(gate.spec, up.spec);
  return {at::mul(at::silu(gate.local), up.local), spec};
}

DTensor clamp(const DTensor& x, double least, double most) {
  static const Rule rule("clamp", "... -> ...");
  const mesh::Spec* spec = rule(x.spec);
  return {at::clamp(x.local, least, most), spec};
}

DTensor where(const DTensor& condition, const DTensor& a, const DTensor& b) {
  static const Rule rule("where", "..., ..., ... -> ...",
                         {.linear = Linear::kTogether, .linear_inputs = 0b110, .type_of = 1});
  const mesh::Spec* spec = rule(condition.spec, a.spec, b.spec);
  return {at::where(condition.local.to(at::kBool), a.local, b.local), spec};
}

DTensor masked_fill(const DTensor& x, const DTensor& mask, double number) {
  static const Rule rule("masked_fill", "..., ... -> ...");
  const mesh::Spec* spec = rule(x.spec, mask.spec);
  return {at::masked_fill(x.local, mask.local.to(at::kBool), number), spec};
}

DTensor cast(const DTensor& x, mesh::ElementType type) {
  // A sum of rounded parts is not the rounded sum.
  static const Rule rule("cast", [](const Rule& self, Rule::Inputs inputs, const Rule::Arguments& arguments) {
    const std::vector<int> dims = all_dims(*inputs[0]);
    mesh::Spec spec = *self.infer(inputs, {.inputs = {dims}, .output = dims, .whole = {}});
    spec.element_type = static_cast<mesh::ElementType>(arguments[0]);
    return mesh::intern(std::move(spec));
  });
  const mesh::Spec* spec = rule.with({static_cast<int64_t>(type)}, x.spec);
  return {x.local.to(scalar_type(type)), spec};
}

}  // namespace weft::tensor
