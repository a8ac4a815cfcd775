#include "nn/parameter_store.h"

#include <algorithm>
#include <cstddef>
#include <numeric>

#include <ATen/ATen.h>

#include "base/check.h"
#include "base/hash.h"
#include "base/philox.h"
#include "kernel/random.h"

namespace weft::nn {
namespace {

int64_t elements(const std::vector<int64_t>& shape) {
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

}  // namespace

ParameterStore::ParameterStore(const model::ModelDescription& model, std::vector<bool> frozen,
                               at::ScalarType compute_type, at::Device device)
    : compute_type_(compute_type) {
  WEFT_CHECK(frozen.size() == model.parameters.size());
  WEFT_CHECK(compute_type == at::kFloat || compute_type == at::kBFloat16);
  groups_.push_back({true, {}, {}, {}});
  groups_.push_back({false, {}, {}, {}});
  std::vector<int64_t> sizes(groups_.size(), 0);
  int64_t frozen_size = 0;
  for (size_t index = 0; index < frozen.size(); ++index) {
    const model::ParameterDescription& parameter = model.parameters[index];
    Entry entry;
    entry.path = parameter.path;
    entry.initializer = parameter.initializer;
    entry.shape = parameter.shape;
    if (!frozen[index]) entry.group = parameter.weight_decay ? 0 : 1;
    int64_t& size = frozen[index] ? frozen_size : sizes[static_cast<size_t>(entry.group)];
    entry.offset = size;
    size += elements(entry.shape);
    if (!frozen[index]) groups_[static_cast<size_t>(entry.group)].parameters.push_back(static_cast<int>(index));
    entries_.push_back(std::move(entry));
  }

  const auto options = at::TensorOptions(at::kFloat).device(device);
  const bool copies = compute_type != at::kFloat;
  for (size_t index = 0; index < groups_.size(); ++index) {
    groups_[index].master = at::empty({sizes[index]}, options);
    compute_copies_.push_back(copies ? at::empty({sizes[index]}, options.dtype(compute_type)) : at::Tensor());
  }
  frozen_master_ = at::empty({frozen_size}, options);
  if (copies) frozen_copy_ = at::empty({frozen_size}, options.dtype(compute_type));
  for (Entry& entry : entries_) {
    const bool is_frozen = entry.group < 0;
    const auto group = static_cast<size_t>(std::max(entry.group, 0));
    const int64_t size = elements(entry.shape);
    const at::Tensor& master = is_frozen ? frozen_master_ : groups_[group].master;
    const at::Tensor& copy = is_frozen ? frozen_copy_ : compute_copies_[group];
    entry.master = master.narrow(0, entry.offset, size).view(entry.shape);
    entry.value = copies ? copy.narrow(0, entry.offset, size).view(entry.shape) : entry.master;
  }
}

void ParameterStore::initialize(uint64_t seed) {
  for (const Entry& entry : entries_) {
    fill(entry.master, entry.initializer, random_key(seed, RandomPurpose::kParameters, 0, xxh64(entry.path)));
  }
  refresh_compute_copies();
}

const std::string& ParameterStore::path(int index) const { return entry(index).path; }
const at::Tensor& ParameterStore::master(int index) const { return entry(index).master; }
const at::Tensor& ParameterStore::value(int index) const { return entry(index).value; }
bool ParameterStore::frozen(int index) const { return entry(index).group < 0; }

bool ParameterStore::adjacent(std::span<const int> indices) const {
  for (size_t i = 1; i < indices.size(); ++i) {
    const Entry& last = entry(indices[i - 1]);
    const Entry& next = entry(indices[i]);
    if (next.group != last.group || next.offset != last.offset + elements(last.shape)) return false;
    if (!std::equal(next.shape.begin() + 1, next.shape.end(), last.shape.begin() + 1, last.shape.end())) return false;
  }
  return true;
}

at::Tensor ParameterStore::joined(std::span<const int> indices, const at::Tensor& flat) const {
  std::vector<int64_t> shape = entry(indices.front()).shape;
  shape[0] = 0;
  for (const int index : indices) shape[0] += entry(index).shape[0];
  return flat.narrow(0, entry(indices.front()).offset, elements(shape)).view(shape);
}

at::Tensor ParameterStore::joined_value(std::span<const int> indices) const {
  if (indices.size() == 1) return value(indices.front());
  if (!adjacent(indices)) return {};
  const int group = entry(indices.front()).group;
  const bool copies = compute_type_ != at::kFloat;
  if (group < 0) return joined(indices, copies ? frozen_copy_ : frozen_master_);
  const auto number = static_cast<size_t>(group);
  return joined(indices, copies ? compute_copies_[number] : groups_[number].master);
}

GradientTarget ParameterStore::joined_gradient_target(std::span<const int> indices) {
  if (indices.size() == 1) return gradient_target(indices.front());
  const Entry& first = entry(indices.front());
  if (first.group < 0 || !adjacent(indices)) return {};
  const bool written = first.written;
  for (const int index : indices) {
    if (entry(index).written != written) return {};
  }
  for (const int index : indices) entry(index).written = true;
  return {joined(indices, groups_[static_cast<size_t>(first.group)].gradient), written};
}

GradientTarget ParameterStore::gradient_target(int index) {
  Entry& claimed = entry(index);
  if (claimed.group < 0) return {};
  WEFT_CHECK(claimed.gradient.defined());  // begin_step came before
  return {claimed.gradient, std::exchange(claimed.written, true)};
}

at::Tensor ParameterStore::gradient(int index) {
  Entry& read = entry(index);
  if (read.group < 0) return {};
  if (!read.gradient.defined()) allocate_gradients();
  if (!std::exchange(read.written, true)) read.gradient.zero_();
  return read.gradient;
}

void ParameterStore::allocate_gradients() {
  for (Group& group : groups_) {
    group.gradient = at::empty_like(group.master);
    for (const int index : group.parameters) {
      Entry& trained = entry(index);
      trained.gradient = group.gradient.narrow(0, trained.offset, elements(trained.shape)).view(trained.shape);
    }
  }
}

void ParameterStore::begin_step() {
  if (!groups_.front().gradient.defined()) allocate_gradients();
  for (Entry& each : entries_) each.written = false;
}

void ParameterStore::finish_gradients() {
  for (size_t index = 0; index < entries_.size(); ++index) gradient(static_cast<int>(index));
}

void ParameterStore::refresh_compute_copies() {
  if (compute_type_ == at::kFloat) return;
  for (size_t index = 0; index < groups_.size(); ++index) compute_copies_[index].copy_(groups_[index].master);
  frozen_copy_.copy_(frozen_master_);
}

uint64_t ParameterStore::parameter_hash() const {
  std::vector<const Entry*> sorted;
  for (const Entry& each : entries_) sorted.push_back(&each);
  std::ranges::sort(sorted, {}, &Entry::path);
  StreamingHash hash(HashKind::kXxh64);
  for (const Entry* each : sorted) {
    const at::Tensor here = each->master.to(at::kCPU).contiguous();
    hash.update(std::span(static_cast<const std::byte*>(here.const_data_ptr()), here.nbytes()));
  }
  return hash.digest();
}

}  // namespace weft::nn
