#include "execute/parameter_traffic.h"

#include <algorithm>
#include <functional>
#include <utility>

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "base/check.h"
#include "base/hash.h"
#include "execute/leaf_exchange.h"
#include "tensor/collectives.h"

namespace weft::execute {
namespace {

std::string of_bucket(const char* what, int bucket) { return fmt::format("{} of bucket {}", what, bucket); }

}  // namespace

ParameterTraffic::ParameterTraffic(const model::ModelDescription& model, nn::ParameterStore& parameters, Ranks& ranks)
    : parameters_(parameters), ranks_(ranks), partial_over_tensor_(partial_over_tensor(model, ranks.layout())) {
  const model::ParameterBuckets buckets = model::parameter_buckets(model);
  const std::vector<int>& owners = parameters.layout().owner;
  for (size_t index = 0; index < model.parameters.size(); ++index) {
    cuts_.push_back(model.parameters[index].tensor_cut);
    const auto uses = [&](const model::SegmentDescription& segment) {
      return std::ranges::find(segment.parameters, static_cast<int>(index)) != segment.parameters.end();
    };
    tied_.push_back(std::ranges::count_if(model.segments, uses) > 1);
    owner_.push_back(owners.empty() ? 0 : owners[static_cast<size_t>(buckets.of_parameter[index])]);
  }
}

void ParameterTraffic::unshard(int bucket) {
  const std::vector<int64_t> sizes = parameters_.shard_sizes(bucket);
  const at::Tensor own = parameters_.own_values(bucket);
  const at::Tensor whole = parameters_.open_values(bucket);
  if (whole.numel() == 0) return;
  ranks_.shards()
      .all_gather(tensor::source_of(own), tensor::target_of(whole), sizes, of_bucket("values", bucket))
      ->wait();
}

void ParameterTraffic::unshard_all() {
  for (int bucket = 0; bucket < parameters_.buckets(); ++bucket) unshard(bucket);
}

void ParameterTraffic::reduce_gradient(int bucket) {
  const at::Tensor whole = parameters_.open_gradients(bucket);
  if (whole.numel() == 0) return;
  add_over_tensor(bucket);
  at::Tensor reduced = whole;
  if (ranks_.shards().size() > 1) {
    const std::vector<int64_t> sizes = parameters_.shard_sizes(bucket);
    reduced = tensor::reduce_scatter_dim(whole, 0, sizes, ranks_.shards(), of_bucket("gradient", bucket));
  }
  if (ranks_.replicas().size() > 1) {
    tensor::all_reduce_(reduced, ranks_.replicas(), comm::Reduction::kSum, of_bucket("gradient", bucket));
  }
  if (ranks_.shards().size() > 1) parameters_.close_gradients(bucket, reduced);
}

// One call for all of a bucket: each parameter as one rank would hold it, with zeros where this rank has no part.
void ParameterTraffic::add_over_tensor(int bucket) {
  std::vector<int> partial;
  std::vector<at::Tensor> whole;
  for (const int index : parameters_.parameters_of(bucket)) {
    if (!partial_over_tensor_[static_cast<size_t>(index)]) continue;
    const nn::Piece& piece = parameters_.piece(index);
    const at::Tensor gradient = parameters_.gradient(index);
    at::Tensor padded = at::zeros(parameters_.global_shape(index), gradient.options());
    padded.narrow(0, piece.offset[0], piece.shape[0]).copy_(gradient);
    partial.push_back(index);
    whole.push_back(padded.view({-1}));
  }
  if (partial.empty()) return;
  const at::Tensor sum = at::cat(whole);
  tensor::all_reduce_(sum, ranks_.tensor(), comm::Reduction::kSum, of_bucket("gradient of shared parts", bucket));
  int64_t begin = 0;
  for (size_t i = 0; i < partial.size(); ++i) {
    const nn::Piece& piece = parameters_.piece(partial[i]);
    const at::Tensor here = sum.narrow(0, std::exchange(begin, begin + whole[i].numel()), whole[i].numel());
    parameters_.gradient(partial[i])
        .copy_(here.view(parameters_.global_shape(partial[i])).narrow(0, piece.offset[0], piece.shape[0]));
  }
}

void ParameterTraffic::move_borrowed(int bucket, int peer, schedule::Direction direction) {
  comm::Communicator& roles = ranks_.pipeline(direction);
  const bool values = direction == schedule::Direction::kForward;
  const at::Tensor here = values ? parameters_.masters(bucket) : parameters_.reduced_gradient(bucket);
  if (here.numel() == 0) return;
  const std::string what = of_bucket(values ? "new values" : "borrowed gradient", bucket);
  if ((parameters_.held_bucket(bucket) == nn::Held::kOwned) == values)
    return roles.send(tensor::source_of(here), peer, what)->wait();
  const at::Tensor arrived = at::empty_like(here);
  roles.receive(tensor::target_of(arrived), peer, what)->wait();
  if (!values) {
    here.add_(arrived);
    return;
  }
  here.copy_(arrived);
  parameters_.refresh_compute_copies();
}

void ParameterTraffic::set_gradients(nn::LeafGradients& leaves, int64_t samples) {
  const auto is_partial = [this](int parameter) { return partial_over_tensor_[static_cast<size_t>(parameter)]; };
  nn::LeafGradients all;
  exchange_leaves(
      leaves, [&](int parameter) { return !is_partial(parameter); }, ranks_.copies(), all);
  exchange_leaves(leaves, is_partial, ranks_.role_ranks(), all);
  comm::Communicator& roles = ranks_.pipeline(schedule::Direction::kBackward);
  const auto is_shared = [&](int parameter) { return roles.size() > 1 && tied_[static_cast<size_t>(parameter)]; };
  if (roles.size() > 1) {  // of tied weights, whose uses may lie on several roles
    nn::LeafGradients shared;
    exchange_leaves(all, is_shared, roles, shared);
    assign_sums(shared.take_sums(samples), [](int) { return true; });
  }
  assign_sums(all.take_sums(samples), [&](int parameter) { return !is_shared(parameter); });
  for (int bucket = 0; bucket < parameters_.buckets(); ++bucket) {
    const at::Tensor whole = parameters_.open_gradients(bucket);
    if (ranks_.shards().size() == 1) continue;
    const std::vector<int64_t> sizes = parameters_.shard_sizes(bucket);
    parameters_.close_gradients(bucket, whole.split_with_sizes(sizes)[static_cast<size_t>(ranks_.shards().rank())]);
  }
}

void ParameterTraffic::assign_sums(const std::vector<nn::LeafGradients::Gradient>& sums,
                                   const std::function<bool(int parameter)>& chosen) {
  for (const nn::LeafGradients::Gradient& gradient : sums) {
    if (!chosen(gradient.parameter) || parameters_.held_as(gradient.parameter) == nn::Held::kAbsent) continue;
    const nn::Piece& piece = parameters_.piece(gradient.parameter);
    // Of heads that several ranks share this one may hold other rows.
    const int64_t begin = std::max(gradient.first_row, piece.offset[0]);
    const int64_t end = std::min(gradient.end_row, piece.offset[0] + piece.shape[0]);
    if (begin >= end) continue;
    parameters_.gradient(gradient.parameter)
        .narrow(0, begin - piece.offset[0], end - begin)
        .copy_(gradient.sum.narrow(0, begin - gradient.first_row, end - begin));
  }
}

at::Tensor ParameterTraffic::whole(int index, const at::Tensor& held_here) {
  if (ranks_.pipeline(schedule::Direction::kForward).size() == 1) return whole_on_role(index, held_here);
  const int owner = owner_[static_cast<size_t>(index)];
  const at::Tensor whole = ranks_.role() == owner ? whole_on_role(index, held_here).contiguous()
                                                  : at::empty(parameters_.global_shape(index), held_here.options());
  ranks_.pipeline(schedule::Direction::kForward)
      .broadcast(tensor::target_of(whole), owner, "value of " + parameters_.path(index))
      ->wait();
  return whole;
}

at::Tensor ParameterTraffic::whole_on_role(int index, const at::Tensor& held_here) {
  const nn::Piece& piece = parameters_.piece(index);
  const std::string what = "value of " + parameters_.path(index);
  at::Tensor slice = held_here;
  if (ranks_.shards().size() > 1 && !parameters_.frozen(index)) {
    slice = tensor::all_gather_dim(slice, 0, parameters_.piece_sizes(index), ranks_.shards(), what);
  }
  slice = slice.view(piece.shape);
  const model::TensorCut& cut = cuts_[static_cast<size_t>(index)];
  if (ranks_.tensor().size() == 1 || cut.kind == model::TensorCut::Kind::kWhole) return slice;
  const std::vector<int64_t>& shape = parameters_.global_shape(index);
  std::vector<Range> held;
  std::vector<int64_t> sizes;
  for (int64_t rank = 0; rank < ranks_.tensor().size(); ++rank) {
    held.push_back(cut.held(shape[static_cast<size_t>(cut.dim)], ranks_.tensor().size(), rank));
    sizes.push_back(held.back().size());
  }
  const at::Tensor parts = tensor::all_gather_dim(slice, cut.dim, sizes, ranks_.tensor(), what);
  at::Tensor whole = at::empty(shape, parts.options());
  int64_t begin = 0;
  for (const Range& range : held) {  // where ranges overlap the ranks hold the same
    whole.narrow(cut.dim, range.begin, range.size()).copy_(parts.narrow(cut.dim, begin, range.size()));
    begin += range.size();
  }
  return whole;
}

uint64_t ParameterTraffic::parameter_hash() {
  StreamingHash hash(HashKind::kXxh64);
  for (const int index : parameters_.sorted_by_path()) {
    const at::Tensor here = whole_parameter(index).to(at::kCPU).contiguous();
    hash.update(std::span(static_cast<const std::byte*>(here.const_data_ptr()), here.nbytes()));
  }
  return hash.digest();
}

}  // namespace weft::execute
