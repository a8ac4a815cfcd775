// A segment that says only what it computes, with ATen operators; autograd makes the backward. For people who add a
// part of a model, and for tests, which hold every hand-written backward against it.
#pragma once

#include <vector>

#include "nn/segment.h"

namespace weft::nn {

class AutogradSegment : public Segment {
 public:
  // The parameters that compute() gets, by index, in the type they are computed with (kDouble in tests).
  AutogradSegment(std::vector<int> parameters, at::ScalarType type);

  // The outputs as functions of the inputs and the parameters' values. Called with gradients on in training; must not
  // use in-place operators on what it is given.
  virtual Tensors compute(RunContext& context, const Tensors& inputs, const Tensors& parameters) = 0;

  Tensors forward(RunContext& context, const Tensors& inputs, Saved& saved) final;
  // Not split: the weights' gradients come with the inputs', but are added to their buffers when the context says.
  Tensors backward(RunContext& context, Saved& saved, Tensors output_gradients) final;

 private:
  std::vector<int> parameters_;
  at::ScalarType type_;
};

}  // namespace weft::nn
