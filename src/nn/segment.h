// The interface through which the executor computes a model. One object a segment of the model's description.
//
// Parts of a model (RunContext::shard; docs/segments.md has the table): values are cut along the sequence by context
// ranks, and by tensor ranks where the shard says sequence; the executor redistributes them between segments. What
// tensor ranks hold of a sum is Partial: outputs of embed, attention and mlp, gradients of the inputs of
// query_key_value, mlp and logits; so are gradients of keys and values over context ranks. In strict mode such a sum is
// a stack of its tree's nodes (leaves.h), and weight gradients go to RunContext::leaf_gradients.
//
// Border rules: inputs arrive detached; a segment never writes its inputs (except the loss, which owns the logits);
// gradients of a value with several consumers are added by the executor in consumer order; integers and constants come
// from the context's batch and carry no gradient; no communication happens inside a segment, its context holds none.
#pragma once

#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>

#include "nn/run_context.h"

namespace weft::nn {

using Tensors = std::vector<at::Tensor>;

// What a forward keeps for its backward: one object a segment and micro-batch, owned by the executor, filled by forward
// and emptied by backward. Nothing is kept when the context does not train.
struct Saved {
  Tensors tensors;
};

class Segment {
 public:
  virtual ~Segment() = default;

  // Computes the outputs, in the description's order. Values are [sequences, length held, ...]. The logits' statistics
  // are undefined where one rank has the whole vocabulary and mode is normal; else fp32 [sequences, length, 3] of the
  // rank's columns (kernel/cross_entropy.h), in strict mode [sequences, length, kUnits, 3] of which it fills its units.
  // The loss reads those of all tensor ranks, [ranks, sequences, length, ..]; of one rank the first dim may be missing.
  virtual Tensors forward(RunContext& context, const Tensors& inputs, Saved& saved) = 0;

  // Takes the gradients of the outputs and returns those of the inputs, one an input; an undefined tensor means zero. A
  // gradient whose tensor and storage nobody else holds (use_count() == 1) may be overwritten; the same tensor may be
  // returned for several inputs. The loss, an output that no segment reads, has the gradient RunContext::loss_scale (no
  // dims, fp32). Weight gradients go through RunContext::weight_gradient, so that a schedule may compute them later
  // (BackwardInput and BackwardWeight) or never (frozen parameters).
  virtual Tensors backward(RunContext& context, Saved& saved, Tensors output_gradients) = 0;
};

}  // namespace weft::nn
