#include "transformer.h"

#include <cmath>

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include "base/hash.h"
#include "tensor/operators.h"
#include "tensor/random.h"

namespace weft::example {

using tensor::DTensor;

Transformer::Transformer(const Sizes& sizes, uint64_t seed, const tensor::Plan& plan)
    : sizes_(sizes), seed_(seed), plan_(plan) {
  const int64_t width = sizes.width;
  add("embedding", {sizes.vocabulary, width}, 0.08);
  for (int64_t layer = 0; layer < sizes.layers; ++layer) {
    const std::string path = fmt::format("layers.{}.", layer);
    for (const char* name : {"attention.qkv.query", "attention.qkv.key", "attention.qkv.value", "attention.output"}) {
      add(path + name, {width, width}, 0.08);
    }
    add(path + "mlp.gate", {sizes.ffn, width}, 0.08);
    add(path + "mlp.up", {sizes.ffn, width}, 0.08);
    add(path + "mlp.down", {width, sizes.ffn}, 0.08);
    add(path + "attention.norm", {width}, 0);
    add(path + "mlp.norm", {width}, 0);
  }
  add("norm", {width}, 0);
}

void Transformer::add(const std::string& path, std::vector<int64_t> shape, double deviation) {
  const mesh::DeviceMesh& ranks = plan_.groups().device_mesh();
  const mesh::Spec* spec = plan_.kept(path, std::move(shape));
  const RandomKey key = random_key(seed_, RandomPurpose::kParameters, 0, xxh64(path));
  const DTensor value = deviation == 0 ? tensor::full(spec, 1, ranks) : tensor::normal(spec, key, deviation, ranks);
  value.local.set_requires_grad(true);
  parameters_[path] = {value, at::zeros_like(value.local), at::zeros_like(value.local)};
}

DTensor Transformer::use(const std::string& path) const { return plan_.use(path, parameters_.at(path).value); }

DTensor Transformer::norm(const std::string& path, const DTensor& x) const {
  return tensor::rms_norm(x, use(path + "norm"), 1e-5);
}

DTensor Transformer::dropped(const std::string& path, const DTensor& x, uint64_t step) const {
  const RandomKey key = random_key(seed_, RandomPurpose::kDropout, step, xxh64(path));
  return tensor::dropout(x, sizes_.dropout, key, plan_.groups().device_mesh());
}

DTensor Transformer::attention(const std::string& path, const DTensor& x) const {
  const int64_t head_dim = sizes_.width / sizes_.heads, length = sizes_.length;
  const at::Tensor inverse = at::pow(1e4, -2 * at::arange(head_dim / 2, at::kFloat) / static_cast<double>(head_dim));
  const at::Tensor half = at::arange(length, at::kFloat).unsqueeze(1) * inverse;
  const at::Tensor angle = at::cat({half, half}, 1);
  const mesh::DeviceMesh& ranks = plan_.groups().device_mesh();
  const std::vector<mesh::Placement> everywhere(ranks.mesh().axes.size());
  const auto table = [&](const at::Tensor& whole) {
    return plan_.place("table", tensor::distribute(whole, tensor::spec_of(whole, ranks.mesh(), everywhere), ranks));
  };
  const DTensor cosine = table(at::cos(angle)), sine = table(at::sin(angle));

  const DTensor in = plan_.place(path + "in", norm(path, x));
  const auto heads = [&](const char* name) {  // [batch, length, heads, head_dim]
    return tensor::unflatten(tensor::linear(in, use(path + "qkv." + name)), 2, head_dim);
  };
  const DTensor query = tensor::transpose(tensor::rotate(heads("query"), cosine, sine), 1, 2);
  const DTensor key = tensor::transpose(tensor::rotate(heads("key"), cosine, sine), 1, 2);
  const DTensor seen = tensor::causal_attention(query, key, tensor::transpose(heads("value"), 1, 2));
  const DTensor joined = tensor::flatten(tensor::transpose(seen, 1, 2), 2);
  return plan_.place(path + "out", tensor::linear(joined, use(path + "output")));
}

DTensor Transformer::mlp(const std::string& path, const DTensor& x) const {
  const DTensor in = plan_.place(path + "in", norm(path, x));
  const DTensor hidden = tensor::swiglu(tensor::linear(in, use(path + "gate")), tensor::linear(in, use(path + "up")));
  return plan_.place(path + "out", tensor::linear(hidden, use(path + "down")));
}

DTensor Transformer::loss(const at::Tensor& tokens, uint64_t step) const {
  const comm::Groups& groups = plan_.groups();
  const mesh::DeviceMesh& ranks = groups.device_mesh();
  const std::vector<mesh::Placement> everywhere(ranks.mesh().axes.size());
  const auto cut = [&](const at::Tensor& whole) {
    return plan_.place("tokens", tensor::distribute(whole, tensor::spec_of(whole, ranks.mesh(), everywhere), ranks));
  };
  const DTensor inputs = cut(tokens.narrow(1, 0, sizes_.length));
  const DTensor targets = cut(tokens.narrow(1, 1, sizes_.length));

  const DTensor embedding = use("embedding");
  DTensor x = plan_.place("embedding.out", tensor::embedding(inputs, embedding, ranks));
  for (int64_t layer = 0; layer < sizes_.layers; ++layer) {
    const std::string path = fmt::format("layers.{}.", layer);
    x = tensor::add(x, dropped(path + "attention", attention(path + "attention.", x), step));
    x = tensor::add(x, dropped(path + "mlp", mlp(path + "mlp.", x), step));
  }
  const DTensor logits = tensor::linear(plan_.place("logits.in", norm("", x)), embedding);
  const DTensor losses = tensor::cross_entropy(tensor::flatten(logits, 0), tensor::flatten(targets, 0), groups);
  const auto count = static_cast<double>(sizes_.batch * sizes_.length);
  return plan_.place("loss", tensor::scale(tensor::sum(losses), 1 / count));
}

double Transformer::gradient_norm() const {
  std::vector<DTensor> gradients;
  for (const auto& [path, parameter] : parameters_) gradients.push_back(tensor::gradient_of(parameter.value));
  return tensor::total_norm(gradients, plan_.groups());
}

void Transformer::update(double rate) {
  const c10::NoGradGuard no_grad;
  ++updates_;
  const auto time = static_cast<double>(updates_);
  const double first_scale = 1 - std::pow(0.9, time), second_scale = 1 - std::pow(0.95, time);
  for (auto& [path, parameter] : parameters_) {
    at::Tensor& gradient = parameter.value.local.mutable_grad();
    parameter.first.mul_(0.9).add_(gradient, 0.1);
    parameter.second.mul_(0.95).addcmul_(gradient, gradient, 0.05);
    const at::Tensor deviation = at::sqrt(parameter.second / second_scale).add_(1e-8);
    parameter.value.local.mul_(1 - rate * 0.01).addcdiv_(parameter.first, deviation, -rate / first_scale);
    gradient.reset();
  }
}

std::vector<double> train(comm::World& world, int fsdp, int tp, int steps, const Sizes& sizes) {
  const comm::Groups groups(world, {{{"fsdp", fsdp}, {"tp", tp}}});
  const tensor::Plan plan(parallel_plan(), groups);
  Transformer model(sizes, 1, plan);
  const mesh::Spec* spec = mesh::intern({.shape = {sizes.batch, sizes.length + 1}});
  std::vector<double> losses;
  for (int step = 0; step < steps; ++step) {
    // Every rank makes the same tokens: squares of uniform numbers, so that small ones are frequent.
    const RandomKey key = random_key(2, RandomPurpose::kSampleOrder, static_cast<uint64_t>(step), 0);
    const at::Tensor numbers = tensor::uniform(spec, key, mesh::DeviceMesh({}, 0)).local;
    const at::Tensor tokens = (at::square(numbers) * static_cast<double>(sizes.vocabulary)).to(at::kLong);
    const DTensor loss = model.loss(tokens, static_cast<uint64_t>(step));
    tensor::backward(loss);
    model.update(0.003);
    losses.push_back(loss.local.item<double>());
  }
  return losses;
}

}  // namespace weft::example
