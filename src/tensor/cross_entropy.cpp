// The loss of logits whose vocabulary may be cut (Megatron-LM, arXiv 1909.08053, section 3): operators.h.
#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>

#include "mesh/shard.h"
#include "tensor/collectives.h"
#include "tensor/operators.h"
#include "tensor/rule.h"

namespace weft::tensor {
namespace {

// The gradient of the own logits is (softmax - one at the target) times the loss's.
class CrossEntropyNode : public torch::autograd::Node {
 public:
  CrossEntropyNode(torch::autograd::edge_list&& edges, const at::Tensor& gradient)
      : Node(std::move(edges)), gradient_(gradient, false) {}
  torch::autograd::variable_list apply(torch::autograd::variable_list&& upper) override {
    if (!upper[0].defined()) return {at::Tensor()};
    return {gradient_.unpack() * upper[0].unsqueeze(1)};
  }
  void release_variables() override { gradient_.reset_data(); }
  std::string name() const override { return "weft::CrossEntropy"; }

 private:
  torch::autograd::SavedVariable gradient_;
};

struct LossAndGradient {
  at::Tensor loss, gradient;
};

LossAndGradient of_part(const at::Tensor& logits, const at::Tensor& targets, Range columns, comm::Communicator& group) {
  const c10::NoGradGuard no_grad;
  const at::Tensor most =
      columns.size() == 0 ? at::full({logits.size(0)}, -INFINITY, logits.options()) : at::amax(logits, 1);
  all_reduce_(most, group, comm::Reduction::kMax, "largest logits");
  at::Tensor probability = at::exp(logits - most.unsqueeze(1));
  const at::Tensor sum = at::sum(probability, 1);
  all_reduce_(sum, group, comm::Reduction::kSum, "sums of exponentials");
  const at::Tensor own = at::logical_and(targets >= columns.begin, targets < columns.end);
  const at::Tensor place = at::where(own, targets - columns.begin, 0).unsqueeze(1);
  const at::Tensor one = own.to(logits.scalar_type()).unsqueeze(1);
  at::Tensor logit = at::zeros({logits.size(0)}, logits.options());
  probability.div_(sum.unsqueeze(1));
  if (columns.size() > 0) {
    logit = (at::gather(logits, 1, place) * one).squeeze(1);
    probability.scatter_add_(1, place, -one);
  }
  all_reduce_(logit, group, comm::Reduction::kSum, "logits of the targets");
  return {at::log(sum) + most - logit, probability};
}

}  // namespace

DTensor cross_entropy(const DTensor& logits, const DTensor& targets, const comm::Groups& groups) {
  static const Rule rule("cross_entropy", "n v, n -> n");
  mesh::Spec spec = *rule(logits.spec, targets.spec);
  mesh::AxisSet cut = 0;
  for (size_t axis = 0; axis < spec.placements.size(); ++axis) {
    if (spec.placements[axis].kind != mesh::PlacementKind::kPartial) continue;
    cut |= mesh::axis_bit(axis);
    spec.placements[axis] = {mesh::PlacementKind::kInvariant, -1};
  }
  const mesh::Spec* output = mesh::intern(std::move(spec));
  if (cut == 0) {
    return {at::cross_entropy_loss(logits.local, targets.local, {}, at::Reduction::None), output};
  }
  const Range columns = mesh::shard_range(*logits.spec, groups.device_mesh().coordinates(), 1);
  LossAndGradient computed = of_part(logits.local, targets.local, columns, groups.group(cut));
  if (c10::GradMode::is_enabled() && logits.local.requires_grad()) {
    auto node =
        c10::make_intrusive<CrossEntropyNode>(torch::autograd::collect_next_edges(logits.local), computed.gradient);
    torch::autograd::set_history(computed.loss, node);
  }
  return {computed.loss, output};
}

}  // namespace weft::tensor
