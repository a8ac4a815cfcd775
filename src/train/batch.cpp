#include "train/batch.h"

#include <ATen/ATen.h>

namespace weft::train {
namespace {

at::Tensor tensor_of(const std::vector<int64_t>& numbers, at::IntArrayRef shape) {
  at::Tensor tensor = at::empty(shape, at::kLong);
  std::copy(numbers.begin(), numbers.end(), tensor.data_ptr<int64_t>());
  return tensor;
}

}  // namespace

nn::MicroBatch micro_batch_of(const data::SampleBatch& batch) {
  const std::vector<int64_t> shape = {batch.rows, batch.length};
  nn::MicroBatch result;
  result.tokens = tensor_of(batch.tokens, shape);
  result.targets = tensor_of(batch.targets, shape);
  result.positions = tensor_of(batch.positions, shape);
  if (!batch.documents.empty()) result.documents = tensor_of(batch.documents, shape);
  result.sample_ids = tensor_of(batch.sample_ids, {batch.rows});
  return result;
}

}  // namespace weft::train
