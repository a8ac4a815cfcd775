// What turns gradients into new parameters. An optimizer knows flat buffers, one a group, and which parameter lies
// where in them; whose parameters they are is its caller's business. docs/optimizers.md.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <ATen/core/Tensor.h>

#include "recipe/optimizer_node.h"

namespace weft::optim {

// A parameter's range in its group's buffers: all of it, or what this rank holds of it.
struct Part {
  std::string path;
  int64_t offset = 0;
  int64_t size = 0;
  std::vector<int64_t> shape = {};  // of what is held of it; needed for matrices
};

struct Group {
  double epsilon = 1;  // both multiply the optimizer's settings
  double weight_decay = 1;
  bool matrices = false;  // hidden matrices, experts' too: what Muon makes orthogonal
  at::Tensor master;      // fp32, flat; changed by step()
  std::vector<Part> parts;
};

// One tensor of an optimizer's state, a view: what is written into it is the state.
struct StateTensor {
  std::string path;   // the parameter's
  std::string name;   // "exp_avg"
  at::Tensor tensor;  // fp32, flat, as long as the part
};

class Optimizer {
 public:
  Optimizer(std::vector<Group> groups, double clip);
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  // Gradients are flat fp32, one a group, and stay as they are.

  // One step at these rates, one a group. Gradients are clipped to the global norm `clip`, given their norm, as torch's
  // clip_grad_norm_ does: times clip / (norm + 1e-6) where that is below 1. WEFT_CHECK: the norm is finite.
  void step(std::span<const at::Tensor> gradients, double gradient_norm, std::span<const double> learning_rates);

  // For checkpoints: what kind of state this is ("adamw"), steps taken so far, and the tensors. A resume restores steps
  // and fills the tensors.
  [[nodiscard]] virtual std::string_view kind() const = 0;
  [[nodiscard]] virtual std::vector<StateTensor> state() const = 0;
  [[nodiscard]] int64_t steps() const { return steps_; }
  void restore_steps(int64_t steps) { steps_ = steps; }

 protected:
  [[nodiscard]] const std::vector<Group>& groups() const { return groups_; }
  // steps() counts this step already. Gradients are to be multiplied by gradient_scale.
  virtual void update(size_t group, const at::Tensor& gradient, double gradient_scale, double learning_rate) = 0;

 private:
  std::vector<Group> groups_;
  double clip_;
  int64_t steps_ = 0;
};

// The optimizer of a node, its state zero. Throws Error for a node that has no computation here.
std::unique_ptr<Optimizer> make_optimizer(const recipe::OptimizerNode& node, std::vector<Group> groups);

}  // namespace weft::optim
