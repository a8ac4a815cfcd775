#include "tensor/dtensor.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>

#include "base/error.h"
#include "mesh/shard.h"
#include "tensor/collectives.h"
#include "tensor/redistribute.h"

namespace weft::tensor {
namespace {

using mesh::Spec;

// The conjugate redistribution, in the graph.
class RedistributionNode : public torch::autograd::Node {
 public:
  RedistributionNode(torch::autograd::edge_list&& edges, const Spec* from, const Spec* to, const comm::Groups& groups,
                     std::string_view what)
      : Node(std::move(edges)), from_(from), to_(to), groups_(groups), what_(fmt::format("gradient of {}", what)) {}

  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override {
    // Every member of the groups comes here, with a gradient or without one.
    const c10::NoGradGuard no_grad;
    const std::vector<int64_t> shape = mesh::local_shape(*to_, groups_.device_mesh().coordinates());
    at::Tensor gradient = gradients[0];
    if (!gradient.defined()) gradient = at::zeros(shape, input_metadata(0).options());
    return {redistribute_gradient(gradient.contiguous(), *from_, *to_, groups_, what_)};
  }

  std::string name() const override { return "weft::Redistribution"; }

 private:
  const Spec* from_;
  const Spec* to_;
  const comm::Groups& groups_;
  std::string what_;
};

// The dims that stay cut keep their units.
const Spec* with_placements(const Spec& spec, std::vector<mesh::Placement> placements) {
  Spec changed = spec;
  changed.placements = std::move(placements);
  changed.shard_order.clear();
  if (mesh::ragged_axis(changed) < 0) changed.ragged_ends.clear();
  return mesh::intern(std::move(changed));
}

}  // namespace

const Spec* spec_of(const at::Tensor& whole, const mesh::Mesh& mesh, std::vector<mesh::Placement> placements,
                    std::vector<int64_t> units) {
  return mesh::intern({.mesh = mesh,
                       .placements = std::move(placements),
                       .shape = whole.sizes().vec(),
                       .units = std::move(units),
                       .element_type = element_type(whole.scalar_type())});
}

DTensor distribute(const at::Tensor& whole, const Spec* spec, const mesh::DeviceMesh& device_mesh) {
  if (whole.sizes() != at::IntArrayRef(spec->shape) || element_type(whole.scalar_type()) != spec->element_type) {
    throw Error(fmt::format("a tensor of {} elements of {} cannot be distributed as {}", whole.numel(),
                            mesh::text(element_type(whole.scalar_type())), spec->text()));
  }
  at::Tensor part = whole.detach();
  const std::vector<int>& place = device_mesh.coordinates();
  if (mesh::ragged_axis(*spec) >= 0) {
    const Range range = mesh::ragged_range(*spec, place);
    part = part.contiguous().view({-1}).narrow(0, range.begin, range.size());
  } else {
    for (int64_t dim = 0; dim < whole.dim(); ++dim) {
      const Range range = mesh::shard_range(*spec, place, dim);
      part = part.narrow(dim, range.begin, range.size());
    }
  }
  part = part.clone(at::MemoryFormat::Contiguous);
  for (size_t axis = 0; axis < place.size(); ++axis) {
    if (spec->placements[axis].kind == mesh::PlacementKind::kPartial && place[axis] > 0) part.zero_();
  }
  return {part, spec};
}

DTensor redistribute(const DTensor& tensor, const Spec* to, const comm::Groups& groups, std::string_view what) {
  if (tensor.spec == to) return tensor;
  const bool recorded = c10::GradMode::is_enabled() && tensor.local.requires_grad();
  at::Tensor moved;
  {
    const c10::NoGradGuard no_grad;
    moved = redistribute(tensor.local, *tensor.spec, *to, groups, what);
  }
  if (!recorded) return {moved, to};
  if (moved.is_same(tensor.local)) moved = tensor.local.detach();
  auto node = c10::make_intrusive<RedistributionNode>(torch::autograd::collect_next_edges(tensor.local), tensor.spec,
                                                      to, groups, what);
  torch::autograd::set_history(moved, node);
  return {moved, to};
}

DTensor redistribute(const DTensor& tensor, std::vector<mesh::Placement> placements, const comm::Groups& groups,
                     std::string_view what) {
  return redistribute(tensor, with_placements(*tensor.spec, std::move(placements)), groups, what);
}

DTensor redistribute(const DTensor& tensor, std::string_view axis, mesh::Placement placement,
                     const comm::Groups& groups, std::string_view what) {
  std::vector<mesh::Placement> placements = tensor.spec->placements;
  const std::vector<std::string_view> names = {axis};
  const mesh::AxisSet changed = groups.device_mesh().axes(names);
  for (size_t i = 0; i < placements.size(); ++i) {
    if (mesh::contains(changed, i)) placements[i] = placement;
  }
  return redistribute(tensor, std::move(placements), groups, what);
}

at::Tensor gather(const DTensor& tensor, const comm::Groups& groups) {
  const c10::NoGradGuard no_grad;
  const std::vector<mesh::Placement> whole(tensor.spec->placements.size(),
                                           mesh::Placement{mesh::PlacementKind::kInvariant});
  return redistribute(tensor, whole, groups, "the whole tensor").local.detach();
}

void backward(const DTensor& loss) {
  for (size_t axis = 0; axis < loss.spec->placements.size(); ++axis) {
    if (loss.spec->placements[axis].kind == mesh::PlacementKind::kInvariant) continue;
    throw Error(fmt::format("the loss {} has no gradient to begin with: redistribute it to {{{}: invariant}} first",
                            loss.spec->text(), loss.spec->mesh.axes[axis].name));
  }
  torch::autograd::backward({loss.local}, {});
}

DTensor gradient_of(const DTensor& leaf) {
  if (!leaf.local.grad().defined()) throw Error(fmt::format("{} has no gradient", leaf.spec->text()));
  return {leaf.local.grad(), mesh::gradient_spec(*leaf.spec)};
}

}  // namespace weft::tensor
