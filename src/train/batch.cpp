#include "train/batch.h"

#include <ATen/ATen.h>

namespace weft::train {
namespace {

at::Tensor tensor_of(const std::vector<int64_t>& numbers, at::IntArrayRef shape) {
  at::Tensor tensor = at::empty(shape, at::kLong);
  std::copy(numbers.begin(), numbers.end(), tensor.data_ptr<int64_t>());
  return tensor;
}

// The columns of the units that a context rank holds.
at::Tensor held(const at::Tensor& rows, const nn::Shard& shard) {
  if (shard.context == 1) return rows;
  std::vector<at::Tensor> columns;
  for (const int64_t unit : nn::context_units(shard.context, shard.context_rank)) {
    const Range tokens = part(rows.size(1), kUnits, unit);
    columns.push_back(rows.narrow(1, tokens.begin, tokens.size()));
  }
  return at::cat(columns, 1);
}

}  // namespace

nn::MicroBatch micro_batch_of(const data::SampleBatch& batch, const nn::Shard& shard) {
  const std::vector<int64_t> shape = {batch.rows, batch.length};
  nn::MicroBatch result;
  result.length = batch.length;
  result.tokens = held(tensor_of(batch.tokens, shape), shard);
  result.targets = held(tensor_of(batch.targets, shape), shard);
  result.positions = held(tensor_of(batch.positions, shape), shard);
  if (!batch.documents.empty()) result.documents = tensor_of(batch.documents, shape);
  result.sample_ids = tensor_of(batch.sample_ids, {batch.rows});
  return result;
}

}  // namespace weft::train
