#include "optim/muon.h"

#include <ATen/ATen.h>

#include "base/check.h"

namespace weft::optim {
namespace {

std::vector<bool> without_matrices(const std::vector<Group>& groups) {
  std::vector<bool> others;
  for (const Group& group : groups) others.push_back(!group.matrices);
  return others;
}

}  // namespace

Muon::Muon(const recipe::Muon& node, std::vector<Group> groups)
    : AdamW(node, groups, without_matrices(groups)), node_(node), steps_(quintic_steps(node.coefficients)) {
  for (const Group& group : this->groups()) {
    buffers_.push_back(group.matrices ? at::zeros_like(group.master) : at::Tensor());
    if (!group.matrices) continue;
    for (const Part& part : group.parts) {
      int64_t elements = 1;
      for (const int64_t size : part.shape) elements *= size;
      WEFT_CHECK(part.shape.size() >= 2 && elements == part.size);
    }
  }
}

std::vector<StateTensor> Muon::state() const {
  std::vector<StateTensor> tensors = AdamW::state();
  for (size_t group = 0; group < groups().size(); ++group) {
    if (!groups()[group].matrices) continue;
    for (const Part& part : groups()[group].parts) {
      tensors.push_back({part.path, "momentum_buffer", buffers_[group].narrow(0, part.offset, part.size)});
    }
  }
  return tensors;
}

at::Tensor Muon::direction(const at::Tensor& buffer, const at::Tensor& gradient) const {
  const double weight = node_.convention == "sum" ? 1 : 1 - node_.momentum;
  buffer.mul_(node_.momentum).add_(gradient, weight);
  return node_.nesterov ? gradient * weight + buffer * node_.momentum : buffer;
}

void Muon::update(size_t index, const at::Tensor& gradient, double gradient_scale, double learning_rate) {
  const Group& group = groups()[index];
  if (!group.matrices) return AdamW::update(index, gradient, gradient_scale, learning_rate);
  const at::Tensor directions = direction(buffers_[index], gradient * gradient_scale);
  group.master.mul_(1 - learning_rate * node_.weight_decay * group.weight_decay);
  for (const Part& part : group.parts) {
    const at::Tensor matrix = directions.narrow(0, part.offset, part.size).view(part.shape);
    const double scale = node_.scale_of(part.shape[part.shape.size() - 2], part.shape.back());
    group.master.narrow(0, part.offset, part.size)
        .add_(orthogonalised(matrix, steps_).reshape({-1}), -learning_rate * scale);
  }
}

}  // namespace weft::optim
