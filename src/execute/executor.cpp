#include "execute/executor.h"

#include <algorithm>
#include <array>
#include <functional>
#include <utility>

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include "base/check.h"
#include "base/error.h"
#include "execute/gradient_norm.h"

namespace weft::execute {
namespace {

using schedule::Action;
using schedule::Op;

// Nobody else sees a change of this tensor.
bool is_unshared(const at::Tensor& tensor) { return tensor.use_count() == 1 && tensor.storage().use_count() == 1; }

// Adds one reader's gradient of a value to those of the readers before.
void add_gradient(at::Tensor& sum, at::Tensor gradient) {
  if (!gradient.defined()) return;
  if (!sum.defined()) {
    sum = std::move(gradient);
  } else if (is_unshared(sum)) {
    sum.add_(gradient);
  } else if (is_unshared(gradient)) {
    sum = gradient.add_(sum);  // addition of two numbers commutes exactly
  } else {
    sum = sum + gradient;
  }
}

// What is alive of one micro-batch.
struct MicroBatchState {
  nn::RunContext context;
  nn::Tensors values;            // by value of the model; undefined before it is written and after it is freed
  nn::Tensors gradients;         // by value of the model
  std::vector<nn::Saved> saved;  // by segment
  std::vector<std::vector<std::function<void()>>>
      weight_queues;  // by segment, between BackwardInput and BackwardWeight
};

class Run {
 public:
  Run(const model::ModelDescription& model, const std::vector<std::unique_ptr<nn::Segment>>& segments,
      const std::vector<bool>& is_root, nn::ParameterStore& parameters, const StepInput& input, bool training)
      : model_(model), segments_(segments), is_root_(is_root), parameters_(parameters), input_(input) {
    states_.resize(input.micro_batches.size());
    for (size_t index = 0; index < states_.size(); ++index) {
      MicroBatchState& state = states_[index];
      state.context.training = training;
      state.context.seed = input.seed;
      state.context.step = input.step;
      state.context.loss_scale = 1.0 / static_cast<double>(input.target_tokens);
      state.context.batch = &input.micro_batches[index];
      state.context.parameters = &parameters;
      state.values.resize(model.values.size());
      state.gradients.resize(model.values.size());
      state.saved.resize(model.segments.size());
      state.weight_queues.resize(model.segments.size());
    }
  }

  void act(const Action& action) {
    using Handler = void (Run::*)(const Action&);
    static constexpr auto kHandlers = [] {
      std::array<Handler, static_cast<size_t>(Op::kFree) + 1> handlers{};
      handlers[static_cast<size_t>(Op::kForward)] = &Run::forward;
      handlers[static_cast<size_t>(Op::kBackward)] = &Run::backward;
      handlers[static_cast<size_t>(Op::kBackwardInput)] = &Run::backward_input;
      handlers[static_cast<size_t>(Op::kBackwardWeight)] = &Run::backward_weight;
      handlers[static_cast<size_t>(Op::kFree)] = &Run::free;
      handlers[static_cast<size_t>(Op::kReduce)] = &Run::reduce;
      handlers[static_cast<size_t>(Op::kStep)] = &Run::step;
      return handlers;
    }();
    const Handler handler = kHandlers[static_cast<size_t>(action.op)];
    if (handler == nullptr) throw Error(fmt::format("the executor has no handler for {}", schedule::text(action)));
    (this->*handler)(action);
  }

  StepOutput take_output() { return std::move(output_); }

 private:
  MicroBatchState& state(const Action& action) { return states_.at(static_cast<size_t>(action.micro_batch)); }
  const model::SegmentDescription& description(const Action& action) const {
    return model_.segments.at(static_cast<size_t>(action.segment));
  }
  nn::Segment& segment(const Action& action) { return *segments_.at(static_cast<size_t>(action.segment)); }

  void forward(const Action& action) {
    MicroBatchState& micro = state(action);
    const model::SegmentDescription& described = description(action);
    nn::Tensors inputs;
    inputs.reserve(described.inputs.size());
    for (const int value : described.inputs) inputs.push_back(micro.values[static_cast<size_t>(value)]);
    nn::Tensors outputs =
        segment(action).forward(micro.context, inputs, micro.saved[static_cast<size_t>(action.segment)]);
    WEFT_CHECK(outputs.size() == described.outputs.size());
    for (size_t i = 0; i < outputs.size(); ++i) {
      micro.values[static_cast<size_t>(described.outputs[i])] = std::move(outputs[i]);
    }
  }

  void backward(const Action& action) {
    state(action).context.weight_gradients = nn::WeightGradients::kNow;
    propagate(action);
  }

  void backward_input(const Action& action) {
    MicroBatchState& micro = state(action);
    micro.context.weight_gradients = nn::WeightGradients::kQueue;
    propagate(action);
    micro.weight_queues[static_cast<size_t>(action.segment)] = std::exchange(micro.context.weight_gradient_queue, {});
  }

  void backward_weight(const Action& action) {
    // Leaves the queue empty, so that what the closures hold is freed.
    for (const auto& compute : std::exchange(state(action).weight_queues[static_cast<size_t>(action.segment)], {})) {
      compute();
    }
  }

  void propagate(const Action& action) {
    MicroBatchState& micro = state(action);
    const model::SegmentDescription& described = description(action);
    nn::Tensors output_gradients;
    output_gradients.reserve(described.outputs.size());
    for (const int value : described.outputs) {
      const auto index = static_cast<size_t>(value);
      output_gradients.push_back(is_root_[index] ? at::scalar_tensor(micro.context.loss_scale, at::kFloat)
                                                 : std::exchange(micro.gradients[index], at::Tensor()));
    }
    nn::Saved saved = std::exchange(micro.saved[static_cast<size_t>(action.segment)], {});
    const auto reached = [](const at::Tensor& gradient) { return gradient.defined(); };
    if (std::ranges::none_of(output_gradients, reached)) return;  // no trained loss depends on this segment
    nn::Tensors gradients = segment(action).backward(micro.context, saved, std::move(output_gradients));
    WEFT_CHECK(gradients.size() == described.inputs.size());
    for (size_t i = 0; i < gradients.size(); ++i) {
      add_gradient(micro.gradients[static_cast<size_t>(described.inputs[i])], std::move(gradients[i]));
    }
  }

  void free(const Action& action) { state(action).values.at(static_cast<size_t>(action.value)) = at::Tensor(); }

  void reduce(const Action& action) {
    if (action.purpose == schedule::Purpose::kLoss) {
      for (const MicroBatchState& micro : states_) {
        for (const auto& [name, sum] : micro.context.metrics) output_.metrics[name] += sum;
      }
      output_.loss = output_.metrics["loss_sum"] / static_cast<double>(input_.target_tokens);
    } else if (action.purpose == schedule::Purpose::kNorm) {
      parameters_.finish_gradients();
      output_.gradient_norm = gradient_norm(parameters_, nullptr, false);
    } else {
      throw Error(fmt::format("the executor has no handler for {}", schedule::text(action)));
    }
  }

  void step(const Action&) { optimizer().apply(parameters_, {input_.step, output_.loss, output_.gradient_norm}); }

  OptimizerStep& optimizer() {
    WEFT_CHECK(input_.optimizer != nullptr);
    return *input_.optimizer;
  }

  const model::ModelDescription& model_;
  const std::vector<std::unique_ptr<nn::Segment>>& segments_;
  const std::vector<bool>& is_root_;
  nn::ParameterStore& parameters_;
  const StepInput& input_;
  std::vector<MicroBatchState> states_;
  StepOutput output_;
};

bool trains(const schedule::Schedule& schedule) {
  for (const Action& action : schedule.roles[0].actions) {
    if (action.op == Op::kBackward || action.op == Op::kBackwardInput) return true;
  }
  return false;
}

}  // namespace

Executor::Executor(const model::ModelDescription& model, std::vector<std::unique_ptr<nn::Segment>> segments,
                   nn::ParameterStore& parameters)
    : model_(model), segments_(std::move(segments)), parameters_(parameters), is_root_(model.values.size(), true) {
  WEFT_CHECK(segments_.size() == model.segments.size());
  for (const model::SegmentDescription& segment : model.segments) {
    for (const int value : segment.inputs) is_root_[static_cast<size_t>(value)] = false;
  }
}

StepOutput Executor::run(const schedule::Schedule& lowered, const StepInput& input) {
  WEFT_CHECK(lowered.roles.size() == 1 && input.target_tokens > 0);
  WEFT_CHECK(input.micro_batches.size() == static_cast<size_t>(lowered.micro_batches));
  const bool training = trains(lowered);
  const c10::NoGradGuard no_gradients;  // a segment that wants autograd turns it on for itself
  if (training) parameters_.begin_step();
  Run run(model_, segments_, is_root_, parameters_, input, training);
  const std::vector<Action>& actions = lowered.roles[0].actions;
  for (size_t index = 0; index < actions.size(); ++index) {
    if (input.observer != nullptr) input.observer->begin(index, actions[index]);
    run.act(actions[index]);
    if (input.observer != nullptr) input.observer->end(index, actions[index]);
  }
  return run.take_output();
}

}  // namespace weft::execute
