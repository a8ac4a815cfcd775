#include "execute/executor.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <utility>

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include "base/check.h"
#include "base/error.h"
#include "execute/gradient_norm.h"
#include "execute/messages.h"

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

// What a Run works with, of its executor.
struct Workshop {
  const model::ModelDescription& model;
  const std::vector<std::unique_ptr<nn::Segment>>& segments;
  const std::vector<bool>& is_root;
  nn::ParameterStore& parameters;
  Ranks* ranks;
  ValueTraffic* values;
  ParameterTraffic* traffic;
  Messages* messages;
};

class Run {
 public:
  Run(const Workshop& workshop, const StepInput& input, bool training) : with_(workshop), input_(input) {
    states_.resize(input.micro_batches.size());
    for (size_t index = 0; index < states_.size(); ++index) {
      MicroBatchState& state = states_[index];
      state.context.training = training;
      state.context.seed = input.seed;
      state.context.step = input.step;
      state.context.loss_scale = 1.0 / static_cast<double>(input.target_tokens);
      state.context.shard = with_.parameters.layout().shard;
      state.context.first_sample = input.first_sample;
      state.context.batch = &input.micro_batches[index];
      state.context.parameters = &with_.parameters;
      if (strict()) state.context.leaf_gradients = &leaves_;
      state.values.resize(with_.model.values.size());
      state.gradients.resize(with_.model.values.size());
      state.saved.resize(with_.model.segments.size());
      state.weight_queues.resize(with_.model.segments.size());
    }
  }

  void act(const Action& action) {
    using Handler = void (Run::*)(const Action&);
    static constexpr auto kHandlers = [] {
      std::array<Handler, static_cast<size_t>(Op::kFree) + 1> handlers{};
      handlers[static_cast<size_t>(Op::kForward)] = &Run::forward;
      handlers[static_cast<size_t>(Op::kRecompute)] = &Run::recompute;
      handlers[static_cast<size_t>(Op::kBackward)] = &Run::backward;
      handlers[static_cast<size_t>(Op::kBackwardInput)] = &Run::backward_input;
      handlers[static_cast<size_t>(Op::kBackwardWeight)] = &Run::backward_weight;
      handlers[static_cast<size_t>(Op::kSend)] = &Run::send;
      handlers[static_cast<size_t>(Op::kReceive)] = &Run::receive;
      handlers[static_cast<size_t>(Op::kFree)] = &Run::free;
      handlers[static_cast<size_t>(Op::kRedistribute)] = &Run::redistribute;
      handlers[static_cast<size_t>(Op::kUnshard)] = &Run::unshard;
      handlers[static_cast<size_t>(Op::kReshard)] = &Run::reshard;
      handlers[static_cast<size_t>(Op::kReduceGradient)] = &Run::reduce_gradient;
      handlers[static_cast<size_t>(Op::kReduce)] = &Run::reduce;
      handlers[static_cast<size_t>(Op::kStep)] = &Run::step;
      return handlers;
    }();
    const Handler handler = kHandlers[static_cast<size_t>(action.op)];
    if (handler == nullptr) throw Error(fmt::format("the executor has no handler for {}", schedule::text(action)));
    if (action.micro_batch >= 0 && is_empty(action)) return;  // on all ranks that divide its sequences
    (this->*handler)(action);
  }

  StepOutput take_output() { return std::move(output_); }

 private:
  [[nodiscard]] bool strict() const { return with_.parameters.layout().shard.strict; }
  [[nodiscard]] bool is_empty(const Action& action) const {
    return input_.micro_batches[static_cast<size_t>(action.micro_batch)].tokens.size(0) == 0;
  }
  MicroBatchState& state(const Action& action) { return states_.at(static_cast<size_t>(action.micro_batch)); }
  const model::SegmentDescription& description(const Action& action) const {
    return with_.model.segments.at(static_cast<size_t>(action.segment));
  }
  nn::Segment& segment(const Action& action) { return *with_.segments.at(static_cast<size_t>(action.segment)); }

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
    if (action.light) micro.saved[static_cast<size_t>(action.segment)] = {};
  }

  // The same numbers once more, so that what they add to the metrics counts once.
  void recompute(const Action& action) {
    MicroBatchState& micro = state(action);
    const std::map<std::string, double> metrics = micro.context.metrics;
    forward(action);
    micro.context.metrics = metrics;
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
      output_gradients.push_back(with_.is_root[index] ? at::scalar_tensor(micro.context.loss_scale, at::kFloat)
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

  void send(const Action& action) {
    if (action.part == schedule::Part::kWait) {
      messages().wait(action);
      return;
    }
    MicroBatchState& micro = state(action);
    const auto index = static_cast<size_t>(action.value);
    if (action.direction == schedule::Direction::kForward) {
      messages().send(action, micro.values[index]);
    } else {
      messages().send(action, std::exchange(micro.gradients[index], at::Tensor()));
    }
  }

  void receive(const Action& action) {
    MicroBatchState& micro = state(action);
    if (action.part == schedule::Part::kStart) return messages().receive(action, micro.context);
    const auto index = static_cast<size_t>(action.value);
    at::Tensor arrived = messages().wait(action);
    if (action.direction == schedule::Direction::kForward) {
      micro.values[index] = std::move(arrived);
    } else {
      add_gradient(micro.gradients[index], std::move(arrived));
    }
  }

  void free(const Action& action) { state(action).values.at(static_cast<size_t>(action.value)) = at::Tensor(); }

  void redistribute(const Action& action) {
    const bool forward = action.direction == schedule::Direction::kForward;
    MicroBatchState& micro = state(action);
    at::Tensor& tensor = (forward ? micro.values : micro.gradients)[static_cast<size_t>(action.value)];
    if (!tensor.defined()) return;  // no trained loss depends on it
    WEFT_CHECK(with_.values != nullptr);
    const auto direction = forward ? nn::Direction::kForward : nn::Direction::kBackward;
    tensor = with_.values->move(action.value, direction, std::exchange(tensor, at::Tensor()), micro.context);
  }

  void unshard(const Action& action) { traffic().unshard(action.bucket); }
  void reshard(const Action& action) { traffic().reshard(action.bucket); }

  // In strict mode the leaves of all buckets are exchanged in front of the norm.
  void reduce_gradient(const Action& action) {
    if (!strict()) traffic().reduce_gradient(action.bucket);
  }

  void reduce(const Action& action) {
    if (action.purpose == schedule::Purpose::kLoss) {
      reduce_loss();
    } else if (action.purpose == schedule::Purpose::kNorm) {
      reduce_norm();
    } else if (action.purpose == schedule::Purpose::kTied) {
      move_borrowed(action);
    } else {
      throw Error(fmt::format("the executor has no handler for {}", schedule::text(action)));
    }
  }

  // In strict mode the leaves of borrowed buckets are exchanged in front of the norm too.
  void move_borrowed(const Action& action) {
    const bool values = action.direction == schedule::Direction::kForward;
    if (strict() && !values) return;
    traffic().move_borrowed(action.bucket, action.peer, action.direction);
  }

  void reduce_norm() {
    if (strict()) {
      traffic().set_gradients(leaves_, input_.samples);
    } else if (with_.parameters.layout().shards == 1) {
      with_.parameters.finish_gradients();
    }
    comm::Communicator* holders = with_.ranks == nullptr ? nullptr : &with_.ranks->holders();
    output_.gradient_norm = gradient_norm(with_.parameters, holders, strict());
  }

  // Tensor ranks compute the same metrics: the first one's count. Every rank has the same names.
  void reduce_loss() {
    output_.metrics[kLossSum] = 0;
    int64_t exact = 0;  // the loss in strict mode
    for (const MicroBatchState& micro : states_) {
      for (const auto& [name, sum] : micro.context.metrics) output_.metrics[name] += sum;
      exact += micro.context.exact_loss_sum;
    }
    std::vector<double> numbers = {input_.stop ? 1.0 : 0.0};
    const bool counts = with_.parameters.layout().shard.tensor_rank == 0;
    // Two halves, so that sums of many ranks stay exact in 53 bits.
    for (const int64_t half : {exact >> kHalfBits, exact & ((int64_t{1} << kHalfBits) - 1)}) {
      numbers.push_back(counts ? static_cast<double>(half) : 0.0);
    }
    for (const auto& [name, sum] : output_.metrics) numbers.push_back(counts ? sum : 0.0);
    if (with_.ranks != nullptr && with_.ranks->world().size() > 1) {
      const comm::Target target{numbers.data(), static_cast<int64_t>(numbers.size()), mesh::ElementType::kFloat64};
      with_.ranks->world().all_reduce(target, comm::Reduction::kSum, "loss and metrics")->wait();
    }
    output_.stop = numbers[0] > 0;
    size_t next = 3;
    for (auto& [name, sum] : output_.metrics) sum = numbers[next++];
    if (strict()) {
      output_.metrics[kLossSum] = (std::ldexp(numbers[1], kHalfBits) + numbers[2]) * nn::kExactLoss;
    }
    output_.loss = output_.metrics[kLossSum] / static_cast<double>(input_.target_tokens);
  }

  void step(const Action&) { optimizer().apply(with_.parameters, {input_.step, output_.loss, output_.gradient_norm}); }

  Messages& messages() {
    WEFT_CHECK(with_.messages != nullptr);
    return *with_.messages;
  }

  ParameterTraffic& traffic() {
    WEFT_CHECK(with_.traffic != nullptr);
    return *with_.traffic;
  }

  OptimizerStep& optimizer() {
    WEFT_CHECK(input_.optimizer != nullptr);
    return *input_.optimizer;
  }

  static constexpr const char* kLossSum = "loss_sum";
  static constexpr int kHalfBits = 26;

  Workshop with_;
  const StepInput& input_;
  nn::LeafGradients leaves_;
  std::vector<MicroBatchState> states_;
  StepOutput output_;
};

// Every role of a schedule that trains takes a step.
bool trains(const std::vector<Action>& actions) {
  return std::ranges::any_of(actions, [](const Action& action) { return action.op == Op::kStep; });
}

}  // namespace

Executor::Executor(const model::ModelDescription& model, std::vector<std::unique_ptr<nn::Segment>> segments,
                   nn::ParameterStore& parameters, Ranks* ranks)
    : model_(model),
      segments_(std::move(segments)),
      parameters_(parameters),
      ranks_(ranks),
      is_root_(model.values.size(), true) {
  WEFT_CHECK(segments_.size() == model.segments.size());
  for (const model::SegmentDescription& segment : model.segments) {
    for (const int value : segment.inputs) is_root_[static_cast<size_t>(value)] = false;
  }
  if (ranks == nullptr) return;
  values_.emplace(model, *ranks);
  parameter_traffic_.emplace(model, parameters, *ranks);
}

StepOutput Executor::run(const schedule::Schedule& lowered, const StepInput& input) {
  const size_t roles = ranks_ == nullptr ? 1 : static_cast<size_t>(ranks_->layout().pipeline);
  WEFT_CHECK(lowered.roles.size() == roles && input.target_tokens > 0);
  WEFT_CHECK(input.micro_batches.size() == static_cast<size_t>(lowered.micro_batches));
  const std::vector<Action>& actions =
      lowered.roles[ranks_ == nullptr ? 0 : static_cast<size_t>(ranks_->role())].actions;
  const bool training = trains(actions);
  const c10::NoGradGuard no_gradients;  // a segment that wants autograd turns it on for itself
  if (training) parameters_.begin_step();
  // Of this run alone: what an exception leaves behind ends with it.
  std::optional<Messages> messages;
  if (ranks_ != nullptr) messages.emplace(model_, *ranks_, parameters_.compute_type());
  Run run({model_, segments_, is_root_, parameters_, ranks_, values_ ? &*values_ : nullptr,
           parameter_traffic_ ? &*parameter_traffic_ : nullptr, messages ? &*messages : nullptr},
          input, training);
  for (size_t index = 0; index < actions.size(); ++index) {
    if (input.observer != nullptr) input.observer->begin(index, actions[index]);
    run.act(actions[index]);
    if (input.observer != nullptr) input.observer->end(index, actions[index]);
  }
  return run.take_output();
}

}  // namespace weft::execute
