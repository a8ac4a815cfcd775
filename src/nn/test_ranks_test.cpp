#include "nn/test_ranks.h"

#include <ATen/ATen.h>

#include "base/check.h"
#include "nn/leaves.h"
#include "nn/segments.h"
#include "nn/tokens.h"

namespace weft::nn {
namespace {

using model::SegmentKind;

at::Tensor sum_of(const Tensors& parts) {
  at::Tensor sum = parts[0];
  for (size_t i = 1; i < parts.size(); ++i) sum = sum + parts[i];
  return sum;
}

// Tokens [sequences, length, ..] that are held, in their order.
at::Tensor held_of(const at::Tensor& whole, const HeldTokens& tokens) {
  Tensors parts;
  for (const TokenRun& run : tokens.units) parts.push_back(whole.narrow(1, run.positions.begin, run.positions.size()));
  return at::cat(parts, 1).contiguous();
}

struct Rank {
  RunContext context;
  MicroBatch batch;
  LeafGradients leaves;
  Tensors values, gradients;
  std::vector<Saved> saved;
};

// One micro-batch on all ranks; rank = context rank * tensor + tensor rank.
class Ranks {
 public:
  Ranks(const TestModel& model, const TestLayout& layout, std::vector<std::unique_ptr<ParameterStore>>& stores,
        const MicroBatch& batch, int64_t first_sample, WeightGradients weight_gradients)
      : description_(model.description), layout_(layout), segments_(build_segments(model.description)) {
    ranks_.resize(stores.size());
    for (size_t number = 0; number < ranks_.size(); ++number) {
      Rank& rank = ranks_[number];
      rank.context = training_context(rank.batch, *stores[number]);
      rank.context.shard = stores[number]->layout().shard;
      rank.context.first_sample = first_sample;
      rank.context.weight_gradients = weight_gradients;
      if (layout.strict) rank.context.leaf_gradients = &rank.leaves;
      rank.batch = batch;
      rank.batch.length = batch.tokens.size(1);
      const HeldTokens tokens = context_tokens(rank.context);
      rank.batch.tokens = held_of(batch.tokens, tokens);
      rank.batch.targets = held_of(batch.targets, tokens);
      rank.batch.positions = held_of(batch.positions, tokens);
      rank.values.resize(description_.values.size());
      rank.gradients.resize(description_.values.size());
      rank.saved.resize(segments_.size());
    }
  }

  void run() {
    for (size_t index = 0; index < segments_.size(); ++index) forward(index);
    for (size_t index = segments_.size(); index-- > 0;) backward(index);
    for (Rank& rank : ranks_) {
      for (const auto& compute : rank.context.weight_gradient_queue) compute();
    }
  }

  std::vector<Rank>& ranks() { return ranks_; }

 private:
  Rank& at(int64_t context, int64_t tensor) { return ranks_[static_cast<size_t>(context * layout_.tensor + tensor)]; }

  // Of the tensor ranks of each context rank, calls change(tensors in, tensors out by rank).
  template <typename Get, typename Change>
  void over_tensor(Get get, Change change) {
    for (int64_t context = 0; context < layout_.context; ++context) {
      Tensors tensors;
      for (int64_t tensor = 0; tensor < layout_.tensor; ++tensor) tensors.push_back(get(at(context, tensor)));
      for (int64_t tensor = 0; tensor < layout_.tensor; ++tensor) {
        get(at(context, tensor)) = change(tensors, at(context, tensor));
      }
    }
  }
  template <typename Get, typename Change>
  void over_context(Get get, Change change) {
    for (int64_t tensor = 0; tensor < layout_.tensor; ++tensor) {
      Tensors tensors;
      for (int64_t context = 0; context < layout_.context; ++context) tensors.push_back(get(at(context, tensor)));
      for (int64_t context = 0; context < layout_.context; ++context) {
        get(at(context, tensor)) = change(tensors, at(context, tensor));
      }
    }
  }

  // What the stream holds of all the context rank's tokens.
  at::Tensor stream_part(const at::Tensor& all, const Rank& rank) const {
    if (!layout_.sequence) return all.clone();
    Shard before = rank.context.shard;
    int64_t first = 0;
    for (before.tensor_rank = 0; before.tensor_rank < rank.context.shard.tensor_rank; ++before.tensor_rank) {
      RunContext context = rank.context;
      context.shard = before;
      first += stream_tokens(context).count;
    }
    return all.narrow(1, first, stream_tokens(rank.context).count).contiguous();
  }

  at::Tensor added(const Tensors& parts, const model::SegmentDescription& segment, Direction direction) const {
    const Shard& shard = ranks_[0].context.shard;
    const PartialLeaves leaves = partial_leaves(description_, segment, direction, shard);
    if (!layout_.strict || leaves.count == 0) return sum_of(parts);
    return merged(leaves, parts);
  }

  void forward(size_t index) {
    const model::SegmentDescription& segment = description_.segments[index];
    for (Rank& rank : ranks_) {
      Tensors inputs;
      for (const int value : segment.inputs) inputs.push_back(rank.values[static_cast<size_t>(value)]);
      const Tensors outputs = segments_[index]->forward(rank.context, inputs, rank.saved[index]);
      for (size_t i = 0; i < outputs.size(); ++i) {
        rank.values[static_cast<size_t>(segment.outputs[i])] = outputs[i];
      }
    }
    const auto output = [&](size_t number) {
      return [value = static_cast<size_t>(segment.outputs[number])](Rank& rank) -> at::Tensor& {
        return rank.values[value];
      };
    };
    switch (segment.kind) {
      case SegmentKind::kEmbed:
      case SegmentKind::kAttention:
      case SegmentKind::kMlp:
        if (layout_.tensor == 1) return;
        return over_tensor(output(0), [&](const Tensors& parts, const Rank& rank) {
          return stream_part(added(parts, segment, Direction::kForward), rank);
        });
      case SegmentKind::kNorm:
        if (!layout_.sequence) return;
        return over_tensor(output(0), [](const Tensors& parts, const Rank&) { return at::cat(parts, 1); });
      case SegmentKind::kQueryKeyValue:
        if (layout_.context == 1) return;
        for (const size_t number : {1, 2}) {
          over_context(output(number), [&](const Tensors& parts, const Rank&) { return in_natural_order(parts); });
        }
        return;
      case SegmentKind::kLogits:
        if (layout_.tensor == 1) return;
        return over_tensor(output(1), [](const Tensors& parts, const Rank&) { return at::stack(parts); });
      default:
        return;
    }
  }

  at::Tensor in_natural_order(const Tensors& parts) {
    std::vector<int64_t> shape = parts[0].sizes().vec();
    shape[1] = ranks_[0].batch.length;
    at::Tensor whole = at::empty(shape, parts[0].options());
    for (int64_t context = 0; context < layout_.context; ++context) {
      for (const TokenRun& run : context_tokens(at(context, 0).context).units) {
        const int64_t count = run.positions.size();
        whole.narrow(1, run.positions.begin, count)
            .copy_(parts[static_cast<size_t>(context)].narrow(1, run.first, count));
      }
    }
    return whole;
  }

  void backward(size_t index) {
    const model::SegmentDescription& segment = description_.segments[index];
    const bool sums = segment.kind == SegmentKind::kEmbed || segment.kind == SegmentKind::kAttention ||
                      segment.kind == SegmentKind::kMlp;
    if (sums && layout_.sequence) {
      const auto gradient = [value = static_cast<size_t>(segment.outputs[0])](Rank& rank) -> at::Tensor& {
        return rank.gradients[value];
      };
      over_tensor(gradient, [](const Tensors& parts, const Rank&) { return at::cat(parts, 1); });
    }
    std::vector<Tensors> lower(ranks_.size());
    for (size_t number = 0; number < ranks_.size(); ++number) {
      Rank& rank = ranks_[number];
      Tensors upper;
      for (const int value : segment.outputs) upper.push_back(std::exchange(rank.gradients[value], at::Tensor()));
      if (segment.kind == SegmentKind::kLoss) upper[0] = at::scalar_tensor(rank.context.loss_scale, at::kFloat);
      lower[number] = segments_[index]->backward(rank.context, rank.saved[index], std::move(upper));
    }
    move_input_gradients(segment, lower);
    for (size_t number = 0; number < ranks_.size(); ++number) {
      for (size_t i = 0; i < lower[number].size(); ++i) {
        at::Tensor& sum = ranks_[number].gradients[static_cast<size_t>(segment.inputs[i])];
        const at::Tensor& each = lower[number][i];
        if (each.defined()) sum = sum.defined() ? sum + each : each;
      }
    }
  }

  void move_input_gradients(const model::SegmentDescription& segment, std::vector<Tensors>& lower) {
    const auto input = [&](size_t number) {
      return [&lower, number, this](Rank& rank) -> at::Tensor& {
        return lower[static_cast<size_t>(&rank - ranks_.data())][number];
      };
    };
    switch (segment.kind) {
      case SegmentKind::kQueryKeyValue:
      case SegmentKind::kMlp:
      case SegmentKind::kLogits:
        if (layout_.tensor == 1) return;
        return over_tensor(input(0), [&](const Tensors& parts, const Rank& rank) {
          return stream_part(added(parts, segment, Direction::kBackward), rank);
        });
      case SegmentKind::kAttention:
        if (layout_.context == 1) return;
        for (const size_t number : {1, 2}) {
          over_context(input(number), [&](const Tensors& parts, const Rank& rank) {
            return held_of(added(parts, segment, Direction::kBackward), context_tokens(rank.context));
          });
        }
        return;
      default:
        return;
    }
  }

  const model::ModelDescription& description_;
  TestLayout layout_;
  std::vector<std::unique_ptr<Segment>> segments_;
  std::vector<Rank> ranks_;
};

// Whether tensor ranks have shares of a parameter's gradient that must be added (nn/segment.h).
bool is_shared(const model::ModelDescription& description, int parameter, const TestLayout& layout) {
  const model::TensorCut& cut = description.parameters[static_cast<size_t>(parameter)].tensor_cut;
  if (cut.kind == model::TensorCut::Kind::kKeyValueHeads) return layout.tensor > cut.heads.key_value;
  if (cut.kind != model::TensorCut::Kind::kWhole) return false;
  for (const model::SegmentDescription& segment : description.segments) {
    if (std::ranges::find(segment.parameters, parameter) == segment.parameters.end()) continue;
    return segment.kind == SegmentKind::kQueryKeyValue || (segment.kind == SegmentKind::kNorm && layout.sequence);
  }
  return false;
}

// Whether a rank's gradient of a parameter counts: of those that all tensor ranks compute alike only rank 0's does.
bool counts(const model::ModelDescription& description, int parameter, const Shard& shard, const TestLayout& layout) {
  const bool whole =
      description.parameters[static_cast<size_t>(parameter)].tensor_cut.kind == model::TensorCut::Kind::kWhole;
  return !whole || shard.tensor_rank == 0 || is_shared(description, parameter, layout);
}

at::Tensor slice_of(const at::Tensor& global, const model::ParameterDescription& parameter, const Shard& shard) {
  const model::TensorCut& cut = parameter.tensor_cut;
  const Range held = cut.held(global.size(cut.dim), shard.tensor, shard.tensor_rank);
  return global.narrow(cut.dim, held.begin, held.size());
}

// The buffers' gradients, added over the ranks.
Tensors added_gradients(const TestModel& model, const TestLayout& layout,
                        const std::vector<std::unique_ptr<ParameterStore>>& stores) {
  Tensors gradients;
  for (int index = 0; index < static_cast<int>(model.parameters->size()); ++index) {
    const model::ParameterDescription& parameter = model.description.parameters[static_cast<size_t>(index)];
    if (model.parameters->frozen(index)) {
      gradients.emplace_back();
      continue;
    }
    at::Tensor global = at::zeros(parameter.shape, at::kFloat);
    for (const auto& store : stores) {
      const Shard& shard = store->layout().shard;
      if (counts(model.description, index, shard, layout))
        slice_of(global, parameter, shard).add_(store->gradient(index));
    }
    gradients.push_back(global);
  }
  return gradients;
}

// Leaves of all ranks and micro-batches, merged where ranks share a sum: one set a tensor rank, and one for the sums
// over tensor ranks.
class MergedLeaves {
 public:
  MergedLeaves(const TestModel& model, const TestLayout& layout)
      : model_(model), layout_(layout), by_tensor_rank_(static_cast<size_t>(layout.tensor)) {}

  void add(const Rank& rank) {
    const Shard& shard = rank.context.shard;
    for (const auto& [block, sum] : rank.leaves.blocks()) {
      if (!counts(model_.description, block.parameter, shard, layout_)) continue;
      const bool shared = is_shared(model_.description, block.parameter, layout_);
      LeafGradients& into = shared ? shared_ : by_tensor_rank_[static_cast<size_t>(shard.tensor_rank)];
      const std::vector<LeafNode> nodes = sum.nodes();
      const Tensors values = sum.values();
      for (size_t i = 0; i < nodes.size(); ++i) into.add(block, nodes[i], values[i].clone());
    }
  }

  Tensors take(int64_t samples) {
    Tensors gradients;
    for (int index = 0; index < static_cast<int>(model_.parameters->size()); ++index) {
      const std::vector<int64_t>& shape = model_.description.parameters[static_cast<size_t>(index)].shape;
      // Every element must be written.
      gradients.push_back(model_.parameters->frozen(index) ? at::Tensor() : at::full(shape, 1e30, at::kFloat));
    }
    for (int64_t tensor_rank = -1; tensor_rank < layout_.tensor; ++tensor_rank) {
      LeafGradients& leaves = tensor_rank < 0 ? shared_ : by_tensor_rank_[static_cast<size_t>(tensor_rank)];
      for (const LeafGradients::Gradient& each : leaves.take_sums(samples)) {
        const auto index = static_cast<size_t>(each.parameter);
        const model::ParameterDescription& parameter = model_.description.parameters[index];
        at::Tensor to = gradients[index];
        if (parameter.tensor_cut.dim == 1) {
          to = slice_of(to, parameter, {.tensor = layout_.tensor, .tensor_rank = tensor_rank});
        }
        to.narrow(0, each.first_row, each.end_row - each.first_row).copy_(each.sum);
      }
    }
    return gradients;
  }

 private:
  const TestModel& model_;
  TestLayout layout_;
  std::vector<LeafGradients> by_tensor_rank_;
  LeafGradients shared_;
};

std::vector<std::unique_ptr<ParameterStore>> stores_of(const TestModel& model, const TestLayout& layout) {
  std::vector<bool> frozen;
  for (int index = 0; index < static_cast<int>(model.parameters->size()); ++index) {
    frozen.push_back(model.parameters->frozen(index));
  }
  std::vector<std::unique_ptr<ParameterStore>> stores;
  for (int64_t context = 0; context < layout.context; ++context) {
    for (int64_t tensor = 0; tensor < layout.tensor; ++tensor) {
      StoreLayout store_layout;
      store_layout.shard = {layout.tensor, tensor, layout.context, context, layout.sequence, layout.strict};
      auto store = std::make_unique<ParameterStore>(model.description, frozen, model.parameters->compute_type(),
                                                    at::Device(at::kCPU), store_layout);
      for (int index = 0; index < static_cast<int>(store->size()); ++index) {
        store->assign(index, model.parameters->master(index));
      }
      store->refresh_compute_copies();
      store->begin_step();
      stores.push_back(std::move(store));
    }
  }
  return stores;
}

}  // namespace

std::string TestLayout::name() const {
  return "tensor " + std::to_string(tensor) + " context " + std::to_string(context) + (sequence ? " sequence" : "") +
         (strict ? " strict" : "");
}

ModelCase case_of_heads(int64_t heads, int64_t kv_heads) {
  return {"heads", [heads, kv_heads](model::ModelNode& node) {
            auto& attention = dynamic_cast<model::GroupedQueryAttention&>(*node.layer.attention);
            attention.heads = heads;
            attention.kv_heads = kv_heads;
            attention.bias = true;
            attention.query_key_norm = model::RmsNorm{};
            attention.dropout = 0.2;
          }};
}

TestOutcome train_on_ranks(const TestModel& model, const TestLayout& layout,
                           const std::vector<MicroBatch>& micro_batches, int64_t first_sample) {
  std::vector<std::unique_ptr<ParameterStore>> stores = stores_of(model, layout);
  MergedLeaves leaves(model, layout);
  TestOutcome outcome;
  int64_t samples = 0;
  for (const MicroBatch& batch : micro_batches) {
    Ranks ranks(model, layout, stores, batch, first_sample,
                micro_batches.size() > 1 ? WeightGradients::kQueue : WeightGradients::kNow);
    ranks.run();
    for (const Rank& rank : ranks.ranks()) {
      if (layout.strict) leaves.add(rank);
      if (rank.context.shard.tensor_rank > 0) continue;
      outcome.loss += rank.context.metrics.at("loss_sum");
      outcome.exact_loss += rank.context.exact_loss_sum;
    }
    samples += batch.tokens.size(0);
  }
  outcome.gradients = layout.strict ? leaves.take(samples) : added_gradients(model, layout, stores);
  return outcome;
}

}  // namespace weft::nn
