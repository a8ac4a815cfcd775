// The interface through which the executor computes a model. One object a segment of the model's description.
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

  // Computes the outputs, in the description's order. Values are [sequences, length, ...].
  virtual Tensors forward(RunContext& context, const Tensors& inputs, Saved& saved) = 0;

  // Takes the gradients of the outputs and returns those of the inputs, one an input; an undefined tensor means zero. A
  // gradient whose tensor and storage nobody else holds (use_count() == 1) may be overwritten; the same tensor may be
  // returned for several inputs. The loss, an output that no segment reads, has the gradient RunContext::loss_scale (no
  // dims, fp32). Weight gradients go through RunContext::weight_gradient, so that a schedule may compute them later
  // (BackwardInput and BackwardWeight) or never (frozen parameters).
  virtual Tensors backward(RunContext& context, Saved& saved, Tensors output_gradients) = 0;
};

}  // namespace weft::nn
