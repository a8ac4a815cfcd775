#include "nn/parameter_store.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>

#include <ATen/ATen.h>

#include "base/check.h"
#include "base/hash.h"
#include "base/philox.h"
#include "kernel/random.h"

namespace weft::nn {
namespace {

int64_t elements_of(const std::vector<int64_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

void fill(const at::Tensor& master, const model::Initializer& initializer, RandomKey key) {
  switch (initializer.kind) {
    case model::Initializer::Kind::kZeros:
      master.zero_();
      break;
    case model::Initializer::Kind::kOnes:
      master.fill_(1);
      break;
    case model::Initializer::Kind::kNormal:
      kernel::fill_normal(master, key, 0, initializer.standard_deviation);
      break;
  }
}

// The first element along the cut dim that no lower tensor rank holds.
int64_t first_owned(const model::TensorCut& cut, int64_t size, const Shard& shard) {
  const Range held = cut.held(size, shard.tensor, shard.tensor_rank);
  int64_t first = held.begin;
  for (int64_t rank = 0; rank < shard.tensor_rank; ++rank) {
    first = std::max(first, cut.held(size, shard.tensor, rank).end);
  }
  return std::min(first, held.end);
}

Range intersection(Range a, Range b) {
  const Range both{std::max(a.begin, b.begin), std::min(a.end, b.end)};
  return both.begin < both.end ? both : Range{a.begin, a.begin};
}

}  // namespace

int64_t Piece::elements() const { return elements_of(shape); }

ParameterStore::ParameterStore(const model::ModelDescription& model, std::vector<bool> frozen,
                               at::ScalarType compute_type, at::Device device, const StoreLayout& layout)
    : layout_(layout), compute_type_(compute_type) {
  WEFT_CHECK(frozen.size() == model.parameters.size());
  WEFT_CHECK(compute_type == at::kFloat || compute_type == at::kBFloat16);
  WEFT_CHECK(layout.shards > 0 && layout.shard_index >= 0 && layout.shard_index < layout.shards);
  describe(model, frozen);
  place(model);
  allocate(device);
  make_groups();
}

// What each parameter is and which slice of it this rank computes with.
void ParameterStore::describe(const model::ModelDescription& model, const std::vector<bool>& frozen) {
  const model::ParameterBuckets buckets = model::parameter_buckets(model);
  for (size_t index = 0; index < frozen.size(); ++index) {
    const model::ParameterDescription& parameter = model.parameters[index];
    Entry entry;
    entry.path = parameter.path;
    entry.initializer = parameter.initializer;
    entry.global_shape = parameter.shape;
    entry.frozen = frozen[index];
    entry.weight_decay = parameter.weight_decay;
    entry.held = held_bucket(buckets.of_parameter[index]);
    Piece& piece = entry.piece;
    piece.parameter = static_cast<int>(index);
    piece.offset.assign(parameter.shape.size(), 0);
    if (entry.held == Held::kAbsent) {
      piece.shape.assign(parameter.shape.size(), 0);
      entries_.push_back(std::move(entry));
      continue;
    }
    piece.shape = parameter.shape;
    const model::TensorCut& cut = parameter.tensor_cut;
    int64_t first = layout_.shard.tensor_rank == 0 ? 0 : elements_of(piece.shape);
    if (cut.kind != model::TensorCut::Kind::kWhole) {
      const auto dim = static_cast<size_t>(cut.dim);
      const int64_t size = parameter.shape[dim];
      const Range held = cut.held(size, layout_.shard.tensor, layout_.shard.tensor_rank);
      entry.cut_dim = cut.dim;
      piece.offset[dim] = held.begin;
      piece.shape[dim] = held.size();
      const int64_t skipped = first_owned(cut, size, layout_.shard) - held.begin;
      WEFT_CHECK(dim == 0 || skipped == 0);  // what is not owned is a range of the row-major slice
      first = held.size() == 0 ? 0 : skipped * (elements_of(piece.shape) / held.size());
    }
    if (entry.held == Held::kOwned) piece.owned = {first, elements_of(piece.shape)};
    entries_.push_back(std::move(entry));
  }
}

Held ParameterStore::held_bucket(int bucket) const {
  return layout_.held.empty() ? Held::kOwned : layout_.held.at(static_cast<size_t>(bucket));
}

// Where it lies.
void ParameterStore::place(const model::ModelDescription& model) {
  const model::ParameterBuckets buckets = model::parameter_buckets(model);
  buckets_.resize(static_cast<size_t>(buckets.count));
  int64_t frozen_size = 0;
  for (const bool weight_decay : {true, false}) {
    for (size_t index = 0; index < entries_.size(); ++index) {
      Entry& placed = entries_[index];
      if (placed.weight_decay != weight_decay) continue;
      if (placed.frozen) {
        placed.offset = std::exchange(frozen_size, frozen_size + placed.elements());
        continue;
      }
      placed.bucket = buckets.of_parameter[index];
      Bucket& bucket = held(placed.bucket);
      placed.offset = std::exchange(bucket.size, bucket.size + placed.elements());
      bucket.parameters.push_back(static_cast<int>(index));
    }
  }
  for (Bucket& bucket : buckets_) bucket.shard = part(bucket.size, layout_.shards, layout_.shard_index);
  frozen_master_ = at::empty({frozen_size}, at::kFloat);
}

void ParameterStore::allocate(at::Device device) {
  const auto options = at::TensorOptions(at::kFloat).device(device);
  const bool copies = compute_type_ != at::kFloat;
  frozen_master_ = frozen_master_.to(device);
  frozen_values_ =
      copies ? at::empty_like(frozen_master_, frozen_master_.options().dtype(compute_type_)) : frozen_master_;
  for (Bucket& bucket : buckets_) bucket.master = at::empty({bucket.shard.size()}, options);
  for (size_t index = 0; index < entries_.size(); ++index) make_piece(static_cast<int>(index));
  if (layout_.shards > 1) return;
  for (int bucket = 0; bucket < buckets(); ++bucket) open_values(bucket);
}

void ParameterStore::make_piece(int index) {
  Entry& made = entry(index);
  Piece& piece = made.piece;
  const int64_t size = made.elements();
  if (made.frozen) {
    piece.range = {0, size};
    piece.master = frozen_master_.narrow(0, made.offset, size);
    made.value = frozen_values_.narrow(0, made.offset, size).view(piece.shape);
  } else {
    const Bucket& bucket = held(made.bucket);
    const Range here = intersection({made.offset, made.offset + size}, bucket.shard);
    piece.range = {here.begin - made.offset, here.end - made.offset};
    piece.master = bucket.master.narrow(0, here.size() == 0 ? 0 : here.begin - bucket.shard.begin, here.size());
  }
  if (piece.range.size() == size) made.master = piece.master.view(piece.shape);
  piece.owned = intersection(piece.owned, piece.range);
}

void ParameterStore::make_groups() {
  for (int number = 0; number < buckets(); ++number) {
    if (held_bucket(number) != Held::kOwned) continue;
    const Bucket& bucket = held(number);
    int64_t begin = 0;
    for (const bool weight_decay : {true, false}) {
      Group group;
      group.weight_decay = weight_decay;
      group.bucket = number;
      int64_t size = 0;
      for (const int index : bucket.parameters) {
        if (entry(index).weight_decay != weight_decay) continue;
        group.pieces.push_back(index);
        size += entry(index).piece.range.size();
      }
      group.master = bucket.master.narrow(0, std::exchange(begin, begin + size), size);
      if (!group.pieces.empty()) groups_.push_back(std::move(group));
    }
  }
}

void ParameterStore::initialize(uint64_t seed) {
  for (size_t index = 0; index < entries_.size(); ++index) {
    const Entry& made = entries_[index];
    if (made.held == Held::kAbsent) continue;
    const RandomKey key = random_key(seed, RandomPurpose::kParameters, 0, xxh64(made.path));
    if (made.master.defined() && made.piece.shape == made.global_shape) {
      fill(made.master, made.initializer, key);
      continue;
    }
    const at::Tensor global =
        at::empty(made.global_shape, at::TensorOptions(at::kFloat).device(frozen_master_.device()));
    fill(global, made.initializer, key);
    assign(static_cast<int>(index), global);
  }
  refresh_compute_copies();
}

void ParameterStore::cut(int index, const at::Tensor& global, const at::Tensor& out) const {
  const Entry& assigned = entry(index);
  WEFT_CHECK(global.sizes().vec() == assigned.global_shape);
  if (assigned.held == Held::kAbsent) return;
  const Piece& piece = assigned.piece;
  at::Tensor slice = global;
  if (assigned.cut_dim >= 0) {
    const auto dim = static_cast<size_t>(assigned.cut_dim);
    slice = global.narrow(assigned.cut_dim, piece.offset[dim], piece.shape[dim]);
  }
  out.copy_(slice.reshape({-1}).narrow(0, piece.range.begin, piece.range.size()));
}

const at::Tensor& ParameterStore::master(int index) const {
  WEFT_CHECK(entry(index).master.defined());
  return entry(index).master;
}

const at::Tensor& ParameterStore::value(int index) const {
  WEFT_CHECK(entry(index).value.defined());
  return entry(index).value;
}

bool ParameterStore::adjacent(std::span<const int> indices) const {
  for (size_t i = 1; i < indices.size(); ++i) {
    const Entry& last = entry(indices[i - 1]);
    const Entry& next = entry(indices[i]);
    if (next.bucket != last.bucket || next.offset != last.offset + last.elements()) return false;
    const auto& a = next.piece.shape;
    const auto& b = last.piece.shape;
    if (!std::equal(a.begin() + 1, a.end(), b.begin() + 1, b.end())) return false;
  }
  return true;
}

at::Tensor ParameterStore::joined(std::span<const int> indices, const at::Tensor& flat) const {
  std::vector<int64_t> shape = entry(indices.front()).piece.shape;
  shape[0] = 0;
  for (const int index : indices) shape[0] += entry(index).piece.shape[0];
  return flat.narrow(0, entry(indices.front()).offset, elements_of(shape)).view(shape);
}

at::Tensor ParameterStore::joined_value(std::span<const int> indices) const {
  if (indices.size() == 1) return value(indices.front());
  if (!adjacent(indices)) return {};
  const int bucket = entry(indices.front()).bucket;
  return joined(indices, bucket < 0 ? frozen_values_ : held(bucket).values);
}

GradientTarget ParameterStore::joined_gradient_target(std::span<const int> indices) {
  if (indices.size() == 1) return gradient_target(indices.front());
  const Entry& first = entry(indices.front());
  if (first.frozen || !adjacent(indices)) return {};
  const bool written = first.written;
  for (const int index : indices) {
    if (entry(index).written != written) return {};
  }
  for (const int index : indices) static_cast<void>(gradient_target(index));
  return {joined(indices, held(first.bucket).gradient), written};
}

GradientTarget ParameterStore::gradient_target(int index) {
  Entry& claimed = entry(index);
  if (claimed.frozen) return {};
  if (!claimed.gradient.defined()) allocate_gradient(claimed.bucket);
  return {claimed.gradient, std::exchange(claimed.written, true)};
}

at::Tensor ParameterStore::gradient(int index) {
  const GradientTarget target = gradient_target(index);
  if (target.buffer.defined() && !target.accumulate) target.buffer.zero_();
  return target.buffer;
}

void ParameterStore::allocate_gradient(int number) {
  Bucket& bucket = held(number);
  bucket.gradient = at::empty({bucket.size}, bucket.master.options());
  for (const int index : bucket.parameters) {
    Entry& trained = entry(index);
    trained.gradient = bucket.gradient.narrow(0, trained.offset, trained.elements()).view(trained.piece.shape);
  }
  if (!bucket.shard_gradient.defined()) {
    bucket.shard_gradient = layout_.shards == 1 ? bucket.gradient : at::empty_like(bucket.master);
    int64_t begin = 0;
    for (Group& group : groups_) {
      if (group.bucket != number) continue;
      const int64_t size = group.master.size(0);
      group.gradient = bucket.shard_gradient.narrow(0, std::exchange(begin, begin + size), size);
    }
  }
}

void ParameterStore::begin_step() {
  for (Entry& each : entries_) each.written = false;
  for (Bucket& bucket : buckets_) bucket.shard_written = false;
}

void ParameterStore::finish_gradients() {
  for (int bucket = 0; bucket < buckets(); ++bucket) open_gradients(bucket);
}

void ParameterStore::refresh_compute_copies() {
  if (compute_type_ != at::kFloat) frozen_values_.copy_(frozen_master_);
  if (layout_.shards > 1 || compute_type_ == at::kFloat) return;
  for (Bucket& bucket : buckets_) bucket.values.copy_(bucket.master);
}

std::vector<int64_t> ParameterStore::shard_sizes(int bucket) const {
  std::vector<int64_t> sizes;
  for (int64_t index = 0; index < layout_.shards; ++index) {
    sizes.push_back(part(held(bucket).size, layout_.shards, index).size());
  }
  return sizes;
}

std::vector<int64_t> ParameterStore::piece_sizes(int index) const {
  const Entry& divided = entry(index);
  std::vector<int64_t> sizes;
  for (int64_t shard = 0; shard < layout_.shards; ++shard) {
    const Range here = part(held(divided.bucket).size, layout_.shards, shard);
    sizes.push_back(intersection({divided.offset, divided.offset + divided.elements()}, here).size());
  }
  return sizes;
}

at::Tensor ParameterStore::own_values(int bucket) const { return held(bucket).master.to(compute_type_); }

at::Tensor ParameterStore::open_values(int number) {
  Bucket& bucket = held(number);
  if (bucket.values.defined()) return bucket.values;
  const bool is_master = layout_.shards == 1 && compute_type_ == at::kFloat;
  bucket.values = is_master ? bucket.master : at::empty({bucket.size}, bucket.master.options().dtype(compute_type_));
  for (const int index : bucket.parameters) {
    Entry& opened = entry(index);
    opened.value = bucket.values.narrow(0, opened.offset, opened.elements()).view(opened.piece.shape);
  }
  return bucket.values;
}

void ParameterStore::close_values(int number) {
  WEFT_CHECK(layout_.shards > 1);
  Bucket& bucket = held(number);
  bucket.values.reset();
  for (const int index : bucket.parameters) entry(index).value.reset();
}

at::Tensor ParameterStore::reduced_gradient(int number) {
  if (layout_.shards == 1) return open_gradients(number);
  WEFT_CHECK(held(number).shard_written);
  return held(number).shard_gradient;
}

at::Tensor ParameterStore::open_gradients(int number) {
  if (!held(number).gradient.defined()) allocate_gradient(number);
  for (const int index : held(number).parameters) gradient(index);
  return held(number).gradient;
}

void ParameterStore::close_gradients(int number, const at::Tensor& reduced) {
  WEFT_CHECK(layout_.shards > 1);
  Bucket& bucket = held(number);
  if (std::exchange(bucket.shard_written, true)) {
    bucket.shard_gradient.add_(reduced);
  } else {
    bucket.shard_gradient.copy_(reduced);
  }
  bucket.gradient.reset();
  for (const int index : bucket.parameters) {
    entry(index).gradient.reset();
    entry(index).written = false;
  }
}

std::vector<int> ParameterStore::sorted_by_path() const {
  std::vector<int> sorted(entries_.size());
  std::iota(sorted.begin(), sorted.end(), 0);
  std::ranges::sort(sorted, {}, [this](int index) -> const std::string& { return entry(index).path; });
  return sorted;
}

uint64_t ParameterStore::parameter_hash() const {
  StreamingHash hash(HashKind::kXxh64);
  for (const int index : sorted_by_path()) {
    WEFT_CHECK(entry(index).piece.shape == entry(index).global_shape);
    const at::Tensor here = master(index).to(at::kCPU).contiguous();
    hash.update(std::span(static_cast<const std::byte*>(here.const_data_ptr()), here.nbytes()));
  }
  return hash.digest();
}

}  // namespace weft::nn
