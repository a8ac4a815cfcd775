#include <cmath>

#include <ATen/ATen.h>

#include "base/check.h"
#include "kernel/cross_entropy.h"
#include "nn/linear.h"
#include "nn/segment_kinds.h"

namespace weft::nn {
namespace {

// logits, statistics -> the sum of the target tokens' cross-entropies, and metric loss_sum. In training the logits,
// which the loss owns, become their gradient at once (scaled by the context's loss_scale, the only gradient that a loss
// can have), so that no second matrix of their size exists.
class LossSegment : public Segment {
 public:
  explicit LossSegment(const model::ModelDescription& model) : vocabulary_(model.vocabulary) {}

  Tensors forward(RunContext& context, const Tensors& inputs, Saved& saved) override {
    const at::Tensor& logits = inputs[0];
    const at::Tensor targets = context.batch->targets.reshape({-1});
    const Result result = inputs[1].defined() ? combined(context, as_rows(logits), targets, inputs[1])
                                              : alone(context, as_rows(logits), targets);
    if (context.training) saved.tensors = {result.gradient.view(logits.sizes())};
    context.metrics["loss_sum"] += result.sum;
    return {at::scalar_tensor(result.sum, at::TensorOptions(at::kDouble).device(logits.device()))};
  }

  Tensors backward(RunContext&, Saved& saved, Tensors) override { return {std::move(saved.tensors[0]), at::Tensor()}; }

 private:
  struct Result {
    double sum = 0;
    at::Tensor gradient;
  };

  // Of logits that hold the whole vocabulary.
  static Result alone(const RunContext& context, const at::Tensor& logits, const at::Tensor& targets) {
    WEFT_CHECK(context.shard.tensor == 1 && !context.shard.strict);
    kernel::CrossEntropyOptions options;
    options.gradient = context.training;
    options.scale = context.loss_scale;
    options.gradient_type = context.parameters->compute_type();
    const kernel::CrossEntropy result = kernel::cross_entropy(logits, targets, options);
    return {result.loss_sum, result.gradient};
  }

  // Of the ranks' or the units' statistics.
  [[nodiscard]] Result combined(RunContext& context, const at::Tensor& logits, const at::Tensor& targets,
                                const at::Tensor& statistics) const {
    const Shard& shard = context.shard;
    at::Tensor parts = statistics.reshape({shard.tensor, targets.size(0), shard.strict ? kUnits : 1, 3});
    parts = shard.strict ? owned_units(parts, shard.tensor) : parts.squeeze(2);
    const kernel::SoftmaxRows rows = kernel::combine_statistics(parts, targets, context.loss_scale);
    Result result{sum_of(context, rows.losses), {}};
    if (context.training) {
      const int64_t first = cut(vocabulary_, kUnits, shard.tensor, shard.tensor_rank).begin;
      result.gradient = kernel::softmax_gradient(logits, targets - first, rows, context.parameters->compute_type());
    }
    return result;
  }

  // [ranks, rows, units, 3] -> [units, rows, 3]: each unit from the rank that holds it.
  static at::Tensor owned_units(const at::Tensor& statistics, int64_t ranks) {
    Tensors units;
    for (int64_t rank = 0; rank < ranks; ++rank) {
      const Range held = part(kUnits, ranks, rank);
      for (int64_t unit = held.begin; unit < held.end; ++unit)
        units.push_back(statistics.select(2, unit).select(0, rank));
    }
    return at::stack(units);
  }

  // In strict mode every loss is rounded to a multiple of kExactLoss.
  static double sum_of(RunContext& context, const at::Tensor& losses) {
    const at::Tensor values = losses.cpu();
    const auto* loss = values.const_data_ptr<double>();
    double sum = 0;
    int64_t exact = 0;
    for (int64_t row = 0; row < values.numel(); ++row) {
      sum += loss[row];
      if (context.shard.strict && std::isfinite(loss[row])) exact += std::llround(loss[row] / kExactLoss);
    }
    if (!context.shard.strict || !std::isfinite(sum)) return sum;
    context.exact_loss_sum += exact;
    return static_cast<double>(exact) * kExactLoss;
  }

  int64_t vocabulary_;
};

}  // namespace

std::unique_ptr<Segment> make_loss_segment(const model::ModelDescription& model, const model::SegmentDescription&) {
  return std::make_unique<LossSegment>(model);
}

}  // namespace weft::nn
