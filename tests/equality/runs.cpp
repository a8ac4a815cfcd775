#include "runs.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <thread>
#include <unistd.h>

#include <fmt/format.h>

#include "base/file.h"
#include "base/json.h"
#include "base/philox.h"
#include "comm/threads.h"
#include "run/layout.h"
#include "run/load.h"

namespace weft::equality {
namespace {

// Eight heads, so that eight tensor ranks have one each; key/value heads that three and four ranks share; feature dims
// that eight units do not divide.
constexpr const char* kGpt = R"(
[model]
family = "gpt2"
layers = 2
heads = 8
width = 40
positions = 24
dropout = 0.1
)";

constexpr const char* kLlama = R"(
[model]
family = "llama"
layers = 2
heads = 8
kv_heads = 2
width = 32
ffn = 52
positions = 24
tied = true
embedding.dropout = 0.1
layer.attention.dropout = 0.1
layer.attention_residual.dropout = 0.1
layer.mlp_residual.dropout = 0.1
)";

constexpr const char* kRest = R"(
[data]
sources = ["text.txt"]
tokenizer = "characters"
context = 20
validation = 0.05
[train]
steps = 20
global_batch = 9
threads = 1
[optimizer]
learning_rate = 5e-3
clip = 0.5
weight_decay = 0.1
[validation]
every = 0
[checkpoint]
every = 0
)";

constexpr std::string_view kScheduleKeys[] = {"kind", "chunks", "micro_batches", "run", "rounds", "memory", "recompute"};

// A group whose member comes late to every call.
class SleepyCommunicator : public comm::Communicator {
 public:
  explicit SleepyCommunicator(std::unique_ptr<comm::Communicator> inner) : inner_(std::move(inner)) {}
  [[nodiscard]] int rank() const override { return inner_->rank(); }
  [[nodiscard]] int size() const override { return inner_->size(); }
  [[nodiscard]] const std::string& name() const override { return inner_->name(); }
  comm::Handle all_reduce(comm::Target numbers, comm::Reduction reduction, std::string_view what) override {
    return late().all_reduce(numbers, reduction, what);
  }
  comm::Handle reduce_scatter(comm::Source numbers, comm::Target own, std::span<const int64_t> counts,
                              comm::Reduction reduction, std::string_view what) override {
    return late().reduce_scatter(numbers, own, counts, reduction, what);
  }
  comm::Handle all_gather(comm::Source own, comm::Target all, std::span<const int64_t> counts,
                          std::string_view what) override {
    return late().all_gather(own, all, counts, what);
  }
  comm::Handle all_to_all(comm::Source numbers, std::span<const int64_t> send_counts, comm::Target received,
                          std::span<const int64_t> receive_counts, std::string_view what) override {
    return late().all_to_all(numbers, send_counts, received, receive_counts, what);
  }
  comm::Handle broadcast(comm::Target numbers, int root, std::string_view what) override {
    return late().broadcast(numbers, root, what);
  }
  comm::Handle send(comm::Source numbers, int to, std::string_view what) override {
    return late().send(numbers, to, what);
  }
  comm::Handle receive(comm::Target numbers, int from, std::string_view what) override {
    return late().receive(numbers, from, what);
  }
  comm::Handle barrier(std::string_view what) override { return late().barrier(what); }
  void abort(const std::string& reason) override { inner_->abort(reason); }

 private:
  comm::Communicator& late() {
    const RandomKey key{static_cast<uint64_t>(inner_->rank()), 0};
    std::this_thread::sleep_for(std::chrono::microseconds(random_word(key, calls_++) % 1000));
    return *inner_;
  }
  std::unique_ptr<comm::Communicator> inner_;
  uint64_t calls_ = 0;
};

class SleepyWorld : public comm::World {
 public:
  explicit SleepyWorld(comm::World& inner) : inner_(inner) {}
  [[nodiscard]] int rank() const override { return inner_.rank(); }
  [[nodiscard]] int size() const override { return inner_.size(); }
  std::unique_ptr<comm::Communicator> make_group(std::span<const int> ranks, const std::string& name) override {
    return std::make_unique<SleepyCommunicator>(inner_.make_group(ranks, name));
  }
  void abort(const std::string& reason) override { inner_.abort(reason); }

 private:
  comm::World& inner_;
};

std::vector<std::string> words(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> result;
  for (std::string word; stream >> word;) result.push_back(word);
  return result;
}

}  // namespace

Runs::Runs() {
  std::string pattern = (std::filesystem::temp_directory_path() / "weft_equality_XXXXXX").string();
  if (mkdtemp(pattern.data()) == nullptr) throw Error("no temporary folder could be made");
  folder_ = pattern;
  write_file(folder_ / "text.txt", read_file("recipes/data/tiny_shakespeare.txt").substr(0, 20000));
  write_file(folder_ / "gpt.toml", fmt::format("{}{}", kGpt, kRest));
  write_file(folder_ / "llama.toml", fmt::format("{}{}", kLlama, kRest));
}

Runs::~Runs() {
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

Outcome Runs::train(const std::string& model, const Settings& settings, std::vector<std::string> assignments) {
  return train_in("run-" + std::to_string(count_++), model, settings, std::move(assignments), false);
}

Outcome Runs::train_in(const std::string& name, const std::string& model, const Settings& settings,
                       std::vector<std::string> assignments, bool resume) {
  const std::filesystem::path directory = folder_ / name;
  assignments.push_back("run.directory=\"" + directory.string() + "\"");
  for (const std::string& word : words(settings)) {
    const std::string key = word.substr(0, word.find('='));
    const bool of_schedule = std::ranges::find(kScheduleKeys, key) != std::end(kScheduleKeys);
    assignments.push_back((of_schedule ? "schedule." : "parallel.") + word);
  }
  run::RunNode run = run::load_run(folder_ / (model + ".toml"), assignments).node;
  const train::RunData data = train::open_data(run);
  Outcome outcome;
  comm::run_ranks(static_cast<int>(run::layout_of(run).ranks()), [&](comm::World& world) {
    train::TrainRequest request;
    request.resume = resume;
    SleepyWorld sleepy(world);
    request.world = sleepy_ ? static_cast<comm::World*>(&sleepy) : &world;
    request.data = data;
    train::Trainer trainer(run, request);
    const train::TrainSummary summary = trainer.run();
    if (world.rank() == 0) outcome.summary = summary;
  });
  std::ifstream metrics(directory / "metrics.jsonl");
  for (std::string line; std::getline(metrics, line);) {
    const Json step = parse_json(line, "metrics.jsonl");
    outcome.losses.push_back(step.at("loss").get<double>());
    outcome.gradient_norms.push_back(step.at("grad_norm").get<double>());
  }
  return outcome;
}

}  // namespace weft::equality
