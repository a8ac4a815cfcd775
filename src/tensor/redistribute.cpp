#include "tensor/redistribute.h"

#include <map>
#include <mutex>

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/check.h"
#include "base/error.h"
#include "mesh/shard.h"
#include "tensor/collectives.h"

namespace weft::tensor {
namespace {

using mesh::Spec;

// The elements of a tensor that a rank holds: a range of each dim, or one range of the flattened tensor.
using Box = std::vector<Range>;

Box box_of(const Spec& spec, const std::vector<int>& coordinates, bool flat) {
  if (!flat) return mesh::shard_ranges(spec, coordinates);
  if (mesh::ragged_axis(spec) >= 0) return {mesh::ragged_range(spec, coordinates)};
  return {{0, mesh::element_count(spec.shape)}};
}

std::vector<int64_t> shape_of(const Box& box) {
  std::vector<int64_t> shape;
  for (const Range& range : box) shape.push_back(range.size());
  return shape;
}

Box common(const Box& one, const Box& other) {
  Box both;
  for (size_t dim = 0; dim < one.size(); ++dim) {
    const int64_t end = std::min(one[dim].end, other[dim].end);
    both.push_back({std::min(std::max(one[dim].begin, other[dim].begin), end), end});
  }
  return both;
}

int64_t count_of(const Box& box) {
  const std::vector<int64_t> shape = shape_of(box);
  return mesh::element_count(shape);
}

// The elements `inner` of a tensor that holds the elements `outer`; a view.
at::Tensor part_of(const at::Tensor& tensor, const Box& outer, const Box& inner) {
  at::Tensor part = tensor;
  for (size_t dim = 0; dim < outer.size(); ++dim) {
    // An empty range may lie before the tensor.
    const int64_t first = std::max(inner[dim].begin - outer[dim].begin, int64_t{0});
    part = part.narrow(static_cast<int64_t>(dim), first, inner[dim].size());
  }
  return part;
}

// One step as this rank and the members of its group see it.
class StepOnTensor {
 public:
  StepOnTensor(const at::Tensor& local, const mesh::RedistributionStep& step, const comm::Groups& groups,
               std::string_view what)
      : step_(step), groups_(groups), what_(what) {
    flat_ = mesh::ragged_axis(*step.from) >= 0 || mesh::ragged_axis(*step.to) >= 0;
    const auto& mine = groups.device_mesh().coordinates();
    before_ = box_of(*step.from, mine, flat_);
    after_ = box_of(*step.to, mine, flat_);
    local_ = flat_ ? local.contiguous().view({-1}) : local;
    to_shape_ = mesh::local_shape(*step.to, mine);
  }

  at::Tensor run() {
    switch (step_.kind) {
      case mesh::StepKind::kRelabel:
        return local_.contiguous();
      case mesh::StepKind::kSlice:
        return part_of(local_, before_, after_).contiguous().view(to_shape_);
      case mesh::StepKind::kZeroFill: {
        const at::Tensor whole = at::zeros(shape_of(after_), local_.options());
        part_of(whole, after_, before_).copy_(local_);
        return whole.view(to_shape_);
      }
      case mesh::StepKind::kMask:
        return groups_.device_mesh().place(step_.axes) == 0 ? local_.contiguous()
                                                            : at::zeros(to_shape_, local_.options());
      case mesh::StepKind::kAllReduce: {
        const at::Tensor sum = local_.clone(at::MemoryFormat::Contiguous);
        all_reduce_(sum, group(), comm::Reduction::kSum, what_);
        return sum;
      }
      case mesh::StepKind::kReduceScatter:
        return reduce_scatter();
      case mesh::StepKind::kAllGather:
        return all_gather();
      case mesh::StepKind::kAllToAll:
        return all_to_all();
    }
    WEFT_CHECK(false);
  }

 private:
  [[nodiscard]] comm::Communicator& group() const { return groups_.group(step_.axes); }

  [[nodiscard]] std::vector<Box> boxes(const Spec& spec) const {
    std::vector<Box> boxes;
    for (const int member : groups_.device_mesh().members(step_.axes)) {
      boxes.push_back(box_of(spec, mesh::coordinates_of(spec.mesh, member), flat_));
    }
    return boxes;
  }

  // The parts `boxes` of the local tensor behind each other, and their lengths.
  [[nodiscard]] at::Tensor packed(const std::vector<Box>& boxes, std::vector<int64_t>& counts) const {
    std::vector<at::Tensor> parts;
    for (const Box& box : boxes) {
      counts.push_back(count_of(box));
      parts.push_back(part_of(local_, before_, box).reshape({-1}));
    }
    return at::cat(parts);
  }

  // The reverse of packed(), for the tensor that the step makes.
  [[nodiscard]] at::Tensor unpacked(const at::Tensor& parts, const std::vector<Box>& boxes) const {
    int64_t first = 0;
    if (boxes.size() == 1 || in_order(boxes)) return parts.view(to_shape_);
    const at::Tensor whole = at::empty(shape_of(after_), parts.options());
    for (const Box& box : boxes) {
      const int64_t count = count_of(box);
      part_of(whole, after_, box).copy_(parts.narrow(0, first, count).view(shape_of(box)));
      first += count;
    }
    return whole.view(to_shape_);
  }

  // Whether the parts behind each other are the whole: they divide its first dim, in order.
  [[nodiscard]] bool in_order(const std::vector<Box>& boxes) const {
    int64_t next = after_.empty() ? 0 : after_[0].begin;
    for (const Box& box : boxes) {
      for (size_t dim = 1; dim < box.size(); ++dim) {
        if (box[dim] != after_[dim]) return false;
      }
      if (box.empty() || box[0].begin != next) return false;
      next = box[0].end;
    }
    return true;
  }

  [[nodiscard]] at::Tensor reduce_scatter() const {
    std::vector<int64_t> counts;
    const at::Tensor parts = packed(boxes(*step_.to), counts);
    const at::Tensor own = at::empty(to_shape_, local_.options());
    group().reduce_scatter(source_of(parts), target_of(own), counts, comm::Reduction::kSum, what_)->wait();
    return own;
  }

  [[nodiscard]] at::Tensor all_gather() const {
    const std::vector<Box> held = boxes(*step_.from);
    std::vector<int64_t> counts;
    int64_t total = 0;
    for (const Box& box : held) total += counts.emplace_back(count_of(box));
    const at::Tensor own = local_.contiguous();
    const at::Tensor all = at::empty({total}, local_.options());
    group().all_gather(source_of(own), target_of(all), counts, what_)->wait();
    return unpacked(all, held);
  }

  [[nodiscard]] at::Tensor all_to_all() const {
    std::vector<Box> sent, received;
    for (const Box& box : boxes(*step_.to)) sent.push_back(common(before_, box));
    for (const Box& box : boxes(*step_.from)) received.push_back(common(after_, box));
    std::vector<int64_t> send_counts, receive_counts;
    const at::Tensor parts = packed(sent, send_counts);
    int64_t total = 0;
    for (const Box& box : received) total += receive_counts.emplace_back(count_of(box));
    const at::Tensor all = at::empty({total}, local_.options());
    group().all_to_all(source_of(parts), send_counts, target_of(all), receive_counts, what_)->wait();
    return unpacked(all, received);
  }

  const mesh::RedistributionStep& step_;
  const comm::Groups& groups_;
  std::string_view what_;
  bool flat_ = false;  // a ragged end: boxes are ranges of the flattened tensor
  Box before_, after_;
  at::Tensor local_;
  std::vector<int64_t> to_shape_;
};

// Plans are looked up by the specs, which are interned and never die.
const std::vector<mesh::RedistributionStep>& planned(const Spec& from, const Spec& to) {
  static std::mutex mutex;
  static std::map<std::pair<const Spec*, const Spec*>, std::vector<mesh::RedistributionStep>> plans;
  const std::lock_guard lock(mutex);
  const auto found = plans.find({&from, &to});
  if (found != plans.end()) return found->second;
  return plans.emplace(std::pair(&from, &to), mesh::plan_redistribution(from, to)).first->second;
}

void check_local(const at::Tensor& local, const Spec& spec, const comm::Groups& groups, std::string_view what) {
  const mesh::DeviceMesh& device_mesh = groups.device_mesh();
  if (spec.mesh != device_mesh.mesh()) {
    throw Error(fmt::format("{}: {} lies on another mesh than the groups", what, spec.text()));
  }
  const std::vector<int64_t> shape = mesh::local_shape(spec, device_mesh.coordinates());
  if (local.sizes() == at::IntArrayRef(shape) && element_type(local.scalar_type()) == spec.element_type) return;
  throw Error(fmt::format("{}: rank {} holds {}[{}] of {}, which should be {}[{}]", what, device_mesh.rank(),
                          mesh::text(element_type(local.scalar_type())),
                          fmt::join(local.sizes().begin(), local.sizes().end(), ", "), spec.text(),
                          mesh::text(spec.element_type), fmt::join(shape, ", ")));
}

}  // namespace

at::Tensor redistribute_step(const at::Tensor& local, const mesh::RedistributionStep& step, const comm::Groups& groups,
                             std::string_view what) {
  return StepOnTensor(local, step, groups, what).run();
}

at::Tensor redistribute(const at::Tensor& local, const Spec& from, const Spec& to, const comm::Groups& groups,
                        std::string_view what) {
  check_local(local, from, groups, what);
  at::Tensor moved = local;
  for (const mesh::RedistributionStep& step : planned(from, to)) moved = redistribute_step(moved, step, groups, what);
  return moved.contiguous();
}

at::Tensor redistribute_gradient(const at::Tensor& gradient, const Spec& from, const Spec& to,
                                 const comm::Groups& groups, std::string_view what) {
  return redistribute(gradient, *mesh::gradient_spec(to), *mesh::gradient_spec(from), groups, what);
}

}  // namespace weft::tensor
