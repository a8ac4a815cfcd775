// A small transformer in eager sharded code. The model names no axis of a mesh: where its tensors lie is the plan's
// affair, so that the same code runs on one rank and on many, with the same losses.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "tensor/plan.h"

namespace weft::example {

struct Sizes {
  int64_t vocabulary = 64, width = 32, heads = 4, ffn = 48, layers = 2;
  int64_t batch = 4, length = 16;
  double dropout = 0.1;
};

// Fully sharded data parallelism, tensor parallelism and sequence parallelism.
std::vector<tensor::PlanLine> parallel_plan();

class Transformer {
 public:
  Transformer(const Sizes& sizes, uint64_t seed, const tensor::Plan& plan);
  // The mean loss over all tokens; tokens int64 [batch, length + 1], the same on every rank. Invariant.
  [[nodiscard]] tensor::DTensor loss(const at::Tensor& tokens, uint64_t step) const;
  // One step of AdamW over each rank's own part; gradients are cleared.
  void update(double rate);
  [[nodiscard]] double gradient_norm() const;

 private:
  struct Parameter {
    tensor::DTensor value;
    at::Tensor first, second;  // moments
  };
  void add(const std::string& path, std::vector<int64_t> shape, double deviation);
  [[nodiscard]] tensor::DTensor use(const std::string& path) const;
  [[nodiscard]] tensor::DTensor norm(const std::string& path, const tensor::DTensor& x) const;
  [[nodiscard]] tensor::DTensor attention(const std::string& path, const tensor::DTensor& x) const;
  [[nodiscard]] tensor::DTensor mlp(const std::string& path, const tensor::DTensor& x) const;
  [[nodiscard]] tensor::DTensor dropped(const std::string& path, const tensor::DTensor& x, uint64_t step) const;

  Sizes sizes_;
  uint64_t seed_;
  const tensor::Plan& plan_;
  std::map<std::string, Parameter> parameters_;
  int64_t updates_ = 0;
};

// Losses of `steps` steps on a mesh fsdp x tp; the world has as many ranks.
std::vector<double> train(comm::World& world, int fsdp, int tp, int steps, const Sizes& sizes = {});

}  // namespace weft::example
