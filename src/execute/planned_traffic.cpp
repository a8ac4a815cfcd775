#include "execute/planned_traffic.h"

#include <numeric>

#include <c10/core/ScalarType.h>
#include <fmt/format.h>

#include "base/check.h"
#include "execute/messages.h"

namespace weft::execute {
namespace {

using comm::Operation;
using mesh::PlacementKind;
using schedule::Action;
using schedule::Op;
using schedule::ValueLayout;

constexpr int64_t kFloatBytes = 4;
constexpr int64_t kDoubleBytes = 8;

class Plan {
 public:
  Plan(const model::ModelDescription& model, const nn::ParameterStore& parameters, Ranks& ranks,
       const BatchShape& batch)
      : model_(model),
        parameters_(parameters),
        ranks_(ranks),
        batch_(batch),
        layouts_(schedule::value_layouts(model, ranks.layout())),
        partial_(schedule::partial_over_tensor(model, ranks.layout())),
        messages_(model, ranks, parameters.compute_type()) {}

  void add(const Action& action) {
    switch (action.op) {
      case Op::kRedistribute:
        return redistribute(action);
      case Op::kUnshard:
        return add(ranks_.shards(), Operation::kAllGather, of_bucket("values", action.bucket),
                   bucket_elements(action.bucket) * compute_bytes());
      case Op::kReduceGradient:
        return reduce_gradient(action.bucket);
      case Op::kSend:
        return message(action, Operation::kSend);
      case Op::kReceive:
        return message(action, Operation::kReceive);
      case Op::kReduce:
        if (action.purpose == schedule::Purpose::kTied) return move_borrowed(action);
        if (action.purpose == schedule::Purpose::kLoss) {
          constexpr int64_t kNumbers = 4;  // whether to stop, the exact loss in two halves, the loss
          add(ranks_.world(), Operation::kAllReduce, "loss and metrics", kNumbers * kDoubleBytes);
        } else {
          add(ranks_.holders(), Operation::kAllReduce, "norm of the gradient", kDoubleBytes);
        }
        return;
      default:
        return;
    }
  }

  comm::Traffic take() { return std::move(traffic_); }

 private:
  static std::string of_bucket(const char* what, int bucket) { return fmt::format("{} of bucket {}", what, bucket); }
  [[nodiscard]] int64_t compute_bytes() const {
    return static_cast<int64_t>(c10::elementSize(parameters_.compute_type()));
  }
  [[nodiscard]] int64_t bucket_elements(int bucket) const {
    const std::vector<int64_t> sizes = parameters_.shard_sizes(bucket);
    return std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
  }

  void add(comm::Communicator& group, Operation operation, const std::string& what, int64_t bytes) {
    if (group.size() == 1) return;
    comm::TrafficCount& count = traffic_[{group.name(), operation, what}];
    count.calls += 1;
    count.bytes += bytes;
  }

  // Tokens of a sequence that this rank's context part has; what is gathered over the context has them all.
  [[nodiscard]] int64_t tokens(bool whole) const {
    if (whole) return batch_.length;
    const nn::Shard& shard = parameters_.layout().shard;
    int64_t count = 0;
    for (const int64_t unit : nn::context_units(shard.context, shard.context_rank)) {
      count += part(batch_.length, kUnits, unit).size();
    }
    return count;
  }

  void redistribute(const Action& action) {
    const int64_t sequences = batch_.sequences[static_cast<size_t>(action.micro_batch)];
    if (sequences == 0) return;
    const bool forward = action.direction == schedule::Direction::kForward;
    const ValueLayout& layout = layouts_[static_cast<size_t>(action.value)];
    const model::ValueDescription& value = model_.values[static_cast<size_t>(action.value)];
    const std::string what = forward ? value.name : "gradient of " + value.name;
    const bool context = layout.axis == ValueLayout::Axis::kContext;
    comm::Communicator& group = context ? ranks_.context() : ranks_.tensor();
    const int64_t rows = sequences * tokens(context);
    if (!layout.has_gradient) {
      return add(group, Operation::kAllGather, what, rows * value.elements_per_token() * group.size() * kFloatBytes);
    }
    const mesh::Placement from = forward ? layout.made : mesh::gradient_placement(layout.read);
    const mesh::Placement to = forward ? layout.read : mesh::gradient_placement(layout.made);
    const Operation operation = from.kind == PlacementKind::kShard ? Operation::kAllGather
                                : to.kind == PlacementKind::kShard ? Operation::kReduceScatter
                                                                   : Operation::kAllReduce;
    add(group, operation, what, rows * held_features(value) * compute_bytes());
  }

  // Keys and values are those of this rank's heads; all other values that move have every feature.
  [[nodiscard]] int64_t held_features(const model::ValueDescription& value) const {
    if (value.trailing.size() < 2) return value.elements_per_token();
    for (const model::SegmentDescription& segment : model_.segments) {
      for (size_t output = 0; output < segment.outputs.size(); ++output) {
        if (&model_.values[static_cast<size_t>(segment.outputs[output])] != &value) continue;
        const model::TensorCut& cut = model_.parameters[static_cast<size_t>(segment.parameters[output])].tensor_cut;
        const nn::Shard& shard = parameters_.layout().shard;
        return cut.held(value.elements_per_token(), shard.tensor, shard.tensor_rank).size();
      }
    }
    WEFT_CHECK(false);
  }

  void message(const Action& action, Operation operation) {
    const int64_t sequences = batch_.sequences[static_cast<size_t>(action.micro_batch)];
    if (sequences == 0 || action.part == schedule::Part::kWait) return;
    add(ranks_.pipeline(action.direction), operation, messages_.name(action),
        messages_.bytes(action, sequences, batch_.length, parameters_.layout().shard));
  }

  void move_borrowed(const Action& action) {
    const bool values = action.direction == schedule::Direction::kForward;
    const int64_t elements = parameters_.masters(action.bucket).numel();
    if (elements == 0) return;
    const bool owns = parameters_.held_bucket(action.bucket) == nn::Held::kOwned;
    add(ranks_.pipeline(action.direction), owns == values ? Operation::kSend : Operation::kReceive,
        of_bucket(values ? "new values" : "borrowed gradient", action.bucket), elements * kFloatBytes);
  }

  void reduce_gradient(int bucket) {
    int64_t shared = 0;
    for (const int index : parameters_.parameters_of(bucket)) {
      if (partial_[static_cast<size_t>(index)]) shared += model_.parameters[static_cast<size_t>(index)].elements();
    }
    if (shared > 0) {
      add(ranks_.tensor(), Operation::kAllReduce, of_bucket("gradient of shared parts", bucket), shared * kFloatBytes);
    }
    const int64_t elements = bucket_elements(bucket);
    const std::string what = of_bucket("gradient", bucket);
    add(ranks_.shards(), Operation::kReduceScatter, what, elements * kFloatBytes);
    const std::vector<int64_t> sizes = parameters_.shard_sizes(bucket);
    const int64_t own = sizes[static_cast<size_t>(parameters_.layout().shard_index)];
    add(ranks_.replicas(), Operation::kAllReduce, what, own * kFloatBytes);
  }

  const model::ModelDescription& model_;
  const nn::ParameterStore& parameters_;
  Ranks& ranks_;
  const BatchShape& batch_;
  std::vector<ValueLayout> layouts_;
  std::vector<bool> partial_;
  Messages messages_;
  comm::Traffic traffic_;
};

}  // namespace

comm::Traffic planned_traffic(const schedule::Schedule& lowered, const model::ModelDescription& model,
                              const nn::ParameterStore& parameters, Ranks& ranks, const BatchShape& batch) {
  Plan plan(model, parameters, ranks, batch);
  for (const Action& action : lowered.roles[static_cast<size_t>(ranks.role())].actions) plan.add(action);
  return plan.take();
}

}  // namespace weft::execute
