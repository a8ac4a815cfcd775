// Values and gradients on their way between pipeline roles, on one rank (docs/execution.md).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>

#include <ATen/core/Tensor.h>

#include "execute/ranks.h"
#include "model/description.h"
#include "nn/run_context.h"
#include "schedule/action.h"

namespace weft::execute {

// The shape of a message follows from the plan and the micro-batch, at both ends: nothing is negotiated. What a message
// is stands in its name, which communicators compare, and its size too.
class Messages {
 public:
  // `model` and `ranks` must outlive it. Values have this type.
  Messages(const model::ModelDescription& model, Ranks& ranks, at::ScalarType type);

  // Begins a Send of this tensor, which is held until its wait; nobody may write it before.
  void send(const schedule::Action& action, const at::Tensor& tensor);
  // Begins a Receive.
  void receive(const schedule::Action& action, const nn::RunContext& context);
  // Ends what was begun; of a Receive the tensor that arrived.
  at::Tensor wait(const schedule::Action& action);

  // Bytes of such a message.
  [[nodiscard]] int64_t bytes(const schedule::Action& action, int64_t sequences, int64_t length,
                              const nn::Shard& shard) const;
  // "layers.3.residual of micro-batch 2"
  [[nodiscard]] std::string name(const schedule::Action& action) const;

 private:
  using Key = std::tuple<schedule::Op, schedule::Direction, int32_t, int32_t, int32_t>;
  struct UnderWay {
    at::Tensor tensor;
    comm::Handle work;  // destroyed first
  };
  static Key key_of(const schedule::Action& action);
  [[nodiscard]] int64_t tokens(int64_t length, const nn::Shard& shard) const;
  [[nodiscard]] std::vector<int64_t> shape(int value, int64_t sequences, int64_t length, const nn::Shard& shard) const;

  const model::ModelDescription& model_;
  Ranks& ranks_;
  at::ScalarType type_;
  std::map<Key, UnderWay> under_way_;
};

}  // namespace weft::execute
