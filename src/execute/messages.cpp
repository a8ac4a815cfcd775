#include "execute/messages.h"

#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "base/check.h"
#include "tensor/collectives.h"

namespace weft::execute {

using schedule::Action;
using schedule::Direction;
using schedule::Op;

Messages::Messages(const model::ModelDescription& model, Ranks& ranks, at::ScalarType type)
    : model_(model), ranks_(ranks), type_(type) {}

Messages::Key Messages::key_of(const Action& action) {
  return {action.op, action.direction, action.stage, action.micro_batch, action.value};
}

std::string Messages::name(const Action& action) const {
  const std::string& value = model_.values[static_cast<size_t>(action.value)].name;
  const char* what = action.direction == Direction::kForward ? "" : "gradient of ";
  return fmt::format("{}{} of micro-batch {}", what, value, action.micro_batch);
}

// Of a sequence, those that this rank holds of what stands between layers.
int64_t Messages::tokens(int64_t length, const nn::Shard& shard) const {
  const std::vector<int64_t> units =
      shard.sequence ? nn::sequence_units(shard) : nn::context_units(shard.context, shard.context_rank);
  int64_t tokens = 0;
  for (const int64_t unit : units) tokens += part(length, kUnits, unit).size();
  return tokens;
}

std::vector<int64_t> Messages::shape(int value, int64_t sequences, int64_t length, const nn::Shard& shard) const {
  std::vector<int64_t> shape = {sequences, tokens(length, shard)};
  const std::vector<int64_t>& trailing = model_.values[static_cast<size_t>(value)].trailing;
  shape.insert(shape.end(), trailing.begin(), trailing.end());
  return shape;
}

int64_t Messages::bytes(const Action& action, int64_t sequences, int64_t length, const nn::Shard& shard) const {
  int64_t elements = 1;
  for (const int64_t size : shape(action.value, sequences, length, shard)) elements *= size;
  return elements * static_cast<int64_t>(c10::elementSize(type_));
}

void Messages::send(const Action& action, const at::Tensor& tensor) {
  WEFT_CHECK(tensor.defined() && tensor.scalar_type() == type_);
  UnderWay sent;
  sent.tensor = tensor.contiguous();
  sent.work = ranks_.pipeline(action.direction).send(tensor::source_of(sent.tensor), action.peer, name(action));
  WEFT_CHECK(under_way_.emplace(key_of(action), std::move(sent)).second);
}

void Messages::receive(const Action& action, const nn::RunContext& context) {
  const nn::MicroBatch& batch = *context.batch;
  UnderWay received;
  received.tensor = at::empty(shape(action.value, batch.tokens.size(0), batch.whole_length(), context.shard),
                              batch.tokens.options().dtype(type_));
  received.work =
      ranks_.pipeline(action.direction).receive(tensor::target_of(received.tensor), action.peer, name(action));
  WEFT_CHECK(under_way_.emplace(key_of(action), std::move(received)).second);
}

at::Tensor Messages::wait(const Action& action) {
  const auto found = under_way_.find(key_of(action));
  WEFT_CHECK(found != under_way_.end());
  found->second.work->wait();
  at::Tensor tensor = std::move(found->second.tensor);
  under_way_.erase(found);
  return tensor;
}

}  // namespace weft::execute
