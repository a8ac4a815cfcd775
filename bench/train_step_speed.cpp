// weft's side of bench/train_step: a model, an executor and an optimizer as `weft train` has them, on one fixed batch.
// Reads numbers of steps, a line each, from standard input, does them, and answers each with one JSON line.
#include <ctime>
#include <fstream>
#include <iostream>
#include <string>

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "base/error.h"
#include "execute/executor.h"
#include "kernel/process.h"
#include "kernel/random.h"
#include "model/describe.h"
#include "model/family.h"
#include "nn/segments.h"
#include "optim/optimizer.h"

namespace {

using namespace weft;

struct Work {
  model::ModelNode model;
  int64_t sequences = 0;
  int64_t length = 0;
};

template <typename Family>
Family sized(int64_t vocabulary, int64_t width, int64_t layers, int64_t heads) {
  Family family;
  family.vocabulary = vocabulary;
  family.width = width;
  family.layers = layers;
  family.heads = heads;
  return family;
}

Work work_of(const std::string& name) {
  if (name == "shakespeare") {
    auto family = sized<model::Gpt2Family>(65, 128, 4, 4);
    family.positions = 64;
    family.bias = false;
    model::ModelNode node = family.model();
    dynamic_cast<model::GeluMlp&>(*node.layer.mlp).approximation = "erf";
    return {node, 12, 64};
  }
  if (name == "llama-15m") {
    auto family = sized<model::LlamaFamily>(4096, 288, 6, 6);
    family.ffn = 768;
    family.tied = true;
    return {family.model(), 4, 256};
  }
  if (name == "gpt2-124m") {
    auto family = sized<model::Gpt2Family>(50257, 768, 12, 12);
    family.positions = 64;
    return {family.model(), 4, 64};
  }
  throw InputError("no work named " + name);
}

nn::MicroBatch batch_of(const Work& work) {
  const at::Tensor words =
      kernel::random_words({1, 0}, 0, work.sequences * (work.length + 1)).view({work.sequences, work.length + 1});
  const at::Tensor tokens = words.remainder(work.model.vocabulary.get());
  nn::MicroBatch batch;
  batch.tokens = tokens.narrow(1, 0, work.length).contiguous();
  batch.targets = tokens.narrow(1, 1, work.length).contiguous();
  batch.positions = at::arange(work.length, at::kLong).expand({work.sequences, work.length}).contiguous();
  batch.sample_ids = at::arange(work.sequences, at::kLong);
  return batch;
}

class AdamWStep : public execute::OptimizerStep {
 public:
  explicit AdamWStep(nn::ParameterStore& parameters) {
    std::vector<optim::Group> groups;
    for (const auto& group : parameters.groups())
      groups.push_back({1, group.weight_decay ? 1.0 : 0.0, false, group.master, {}});
    optimizer_ = optim::make_optimizer(recipe::AdamW{}, std::move(groups));
  }
  void apply(nn::ParameterStore& parameters, const execute::StepFacts& facts) override {
    const std::vector<double> rates(parameters.groups().size(), 1e-3);
    optimizer_->step(gradients(parameters), facts.gradient_norm, rates);
    parameters.refresh_compute_copies();
  }

 private:
  static std::vector<at::Tensor> gradients(nn::ParameterStore& parameters) {
    std::vector<at::Tensor> flat;
    for (const auto& group : parameters.groups()) flat.push_back(group.gradient);
    return flat;
  }
  std::unique_ptr<optim::Optimizer> optimizer_;
};

double cpu_seconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// Of /proc/self/status, in bytes.
int64_t memory(const std::string& key) {
  std::ifstream file("/proc/self/status");
  for (std::string word; file >> word;) {
    int64_t kilobytes = 0;
    if (word == key && file >> kilobytes) return kilobytes * 1024;
  }
  return 0;
}

int run(const std::string& name, at::ScalarType type) {
  kernel::start_process({.threads = 1});
  static_cast<void>(at::ones({64, 64}).mm(at::ones({64, 64})));  // the products' library has its own buffers
  const int64_t before = memory("VmRSS:");
  const Work work = work_of(name);
  const model::ModelDescription description = model::describe(work.model);
  nn::ParameterStore parameters(description, std::vector<bool>(description.parameters.size(), false), type, at::kCPU);
  parameters.initialize(1);
  AdamWStep optimizer(parameters);
  execute::Executor executor(description, nn::build_segments(description), parameters);
  const schedule::Schedule schedule = schedule::expand(schedule::accumulate(description, 1), description);
  const nn::MicroBatch batch = batch_of(work);
  execute::StepInput input;
  input.micro_batches = std::span(&batch, 1);
  input.target_tokens = work.sequences * work.length;
  input.optimizer = &optimizer;
  for (int64_t steps = 0; std::cin >> steps;) {
    execute::StepOutput output;
    const double start = cpu_seconds();
    for (int64_t step = 0; step < steps; ++step, ++input.step) output = executor.run(schedule, input);
    const double cpu = cpu_seconds() - start;
    fmt::print("{{\"cpu\": {}, \"loss\": {}, \"tokens\": {}, \"peak\": {}}}\n", cpu, output.loss,
               steps * input.target_tokens, memory("VmHWM:") - before);
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace

int main(int count, char** arguments) try {
  if (count < 2) throw weft::InputError("usage: train_step_speed WORK [bf16] < steps");
  return run(arguments[1], count > 2 && std::string(arguments[2]) == "bf16" ? at::kBFloat16 : at::kFloat);
} catch (const weft::Error& error) {
  fmt::print(stderr, "{}\n", error.what());
  return static_cast<int>(error.exit_code());
}
