#include "train/trainer.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <utility>

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "base/checkpoint_folder.h"
#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/machine.h"
#include "config/toml.h"
#include "config/tree.h"
#include "model/describe.h"
#include "nn/segments.h"
#include "run/load.h"
#include "serve/generate.h"
#include "train/batch.h"
#include "train/initial_weights.h"
#include "train/memory_check.h"
#include "train/validation.h"

namespace weft::train {
namespace {

std::string_view signal_name(int signal) { return signal == SIGINT ? "SIGINT" : "SIGTERM"; }

bool is_due(int64_t step, int64_t every) { return every > 0 && step % every == 0; }

}  // namespace

Trainer::Trainer(run::RunNode run, const TrainRequest& request) : run_(std::move(run)), request_(request) {
  open_folder();
  tokenizer_ = data::make_tokenizer(run_.data);
  if (tokenizer_ != nullptr) run::set_vocabulary(run_, static_cast<int64_t>(tokenizer_->vocabulary_size()));
  dataset_ = std::make_unique<data::Dataset>(run_.data, tokenizer_, static_cast<uint64_t>(run_.model.vocabulary.get()),
                                             static_cast<uint64_t>(run_.train.seed));
  make_model();
  prepare_samples();
  if (request_.resume) {
    resume();
  } else if (request_.branch) {
    branch();
  } else {
    initialize_parameters(*parameters_, model_, run_.train);
  }
  write_start();
}

// First of all, so that a mistake in the folder's name costs no time.
void Trainer::open_folder() {
  const auto start = request_.resume ? RunFolder::Start::kResume : RunFolder::Start::kNew;
  folder_ = std::make_unique<RunFolder>(run_.run.directory, start);
  checkpoints_ =
      run_.checkpoint.directory.empty() ? folder_->checkpoints() : std::filesystem::path(run_.checkpoint.directory);
}

void Trainer::make_model() {
  model_ = model::describe(run_.model);
  const std::vector<bool> frozen = frozen_parameters(run_.train, model_);
  const std::string shortage = memory_shortage(run_, model_, frozen, available_memory());
  if (!shortage.empty()) throw InputError(shortage);
  const at::ScalarType compute_type = run_.train.precision == "bf16" ? at::kBFloat16 : at::kFloat;
  parameters_ = std::make_unique<nn::ParameterStore>(model_, frozen, compute_type, at::kCPU);
  executor_ = std::make_unique<execute::Executor>(model_, nn::build_segments(model_), *parameters_);
  optimizer_ = std::make_unique<RunOptimizer>(run_, *parameters_);
  cut_ = run::batch_cut(run_);
  cut_.micro_batches = std::min(cut_.micro_batches, cut_.global_batch);  // empty ones need no action
  const schedule::Schedule stage_level = schedule::accumulate(model_, static_cast<int32_t>(cut_.micro_batches));
  schedule_ = schedule::expand(stage_level, model_);
  for (const schedule::Schedule& schedule : {stage_level, schedule_}) {
    const std::string reason = schedule::validate(schedule, model_);
    if (!reason.empty()) throw Error("the step's schedule is not valid: " + reason);
  }
}

// Now, so that a prompt which the tokenizer cannot write is found before hours of training.
void Trainer::prepare_samples() {
  if (run_.samples.every == 0) return;
  if (tokenizer_ == nullptr) throw InputError("samples.every: samples of text need a tokenizer (data.tokenizer)");
  if (!run_.samples.prompt.empty()) {
    sample_prompt_ = tokenizer_->encode(run_.samples.prompt);
  } else if (const auto beginning = tokenizer_->bos_id() ? tokenizer_->bos_id() : tokenizer_->eos_id()) {
    sample_prompt_ = {*beginning};
  } else if (const auto line_break = tokenizer_->token_id("\n")) {
    sample_prompt_ = {*line_break};
  } else {
    sample_prompt_ = {0};
  }
}

void Trainer::resume() {
  const run::RunNode before = run::load_run(folder_->configuration(), {}).node;
  const std::string refused = run::refusal(before, run_);
  if (!refused.empty()) throw InputError(fmt::format("{}: {}", folder_->directory().string(), refused));
  clean_checkpoints(checkpoints_);
  const auto newest = newest_checkpoint(checkpoints_);
  if (!newest) {
    initialize_parameters(*parameters_, model_, run_.train);
    return;
  }
  now_ = load_checkpoint(newest->folder, {run_, *dataset_, *parameters_, *optimizer_});
  saved_step_ = now_.step;
  check_step(newest->folder);
}

// The model must be the same and so must the data, whose samples go on where the other run stood; rates, batch and
// everything else are the new run's.
void Trainer::branch() {
  const run::RunNode before = run::load_run(request_.branch->run / "config.toml", {}).node;
  for (const config::Difference& difference : run::refused_changes(before, run_)) {
    if (difference.hint != config::Hint::kArchitecture) continue;
    throw InputError(fmt::format("{}: a branch may not change {}: was {}, now {}", request_.branch->run.string(),
                                 difference.path, difference.before, difference.after));
  }
  const std::filesystem::path checkpoints = before.checkpoint.directory.empty()
                                                ? request_.branch->run / "checkpoints"
                                                : std::filesystem::path(before.checkpoint.directory);
  const std::filesystem::path folder = checkpoints / checkpoint_name(request_.branch->step);
  now_ = load_checkpoint(folder, {run_, *dataset_, *parameters_, *optimizer_});
  check_step(folder);
}

void Trainer::check_step(const std::filesystem::path& checkpoint) const {
  if (now_.step <= run_.train.steps) return;
  throw InputError(
      fmt::format("{}: step {} is behind train.steps = {}", checkpoint.string(), now_.step, run_.train.steps));
}

void Trainer::write_start() {
  write_file(folder_->configuration(), config::dump(run_));
  if (tokenizer_ != nullptr) tokenizer_->save(folder_->directory());
  reporter_ = std::make_unique<Reporter>(*folder_, now_.step, run_.train.steps);
  if (run_.train.record_batches) {
    record_ = std::make_unique<BatchRecord>(folder_->directory() / "batches.jsonl", now_.step);
  }
  OrderedJson facts = {{"steps", run_.train.steps},
                       {"parameters", model_.parameter_count()},
                       {"data_fingerprint", hash_text(dataset_->fingerprint().hash())}};
  if (request_.branch) facts["from"] = request_.branch->run.string();
  reporter_->event(request_.resume ? "resumed" : "started", now_.step, facts);
  reporter_->line(fmt::format("{}: {} parameters; {}", folder_->directory().string(),
                              quantity_text(static_cast<double>(model_.parameter_count())), dataset_->summary()));
  if (now_.step > 0) reporter_->line(fmt::format("goes on behind step {}", now_.step));
}

TrainSummary Trainer::run() {
  try {
    if (now_.step == 0 && run_.checkpoint.initial && saved_step_ != 0) save();
    while (now_.step < run_.train.steps) {
      stop_if_asked();
      step();
    }
  } catch (const Interrupted&) {
    throw;
  } catch (const Error& error) {
    reporter_->event("failed", now_.step, {{"reason", error.what()}});
    throw;
  }
  TrainSummary summary;
  summary.validation_loss = whole_validation_loss_ ? whole_validation_loss_ : validation_loss(0);
  summary.steps = now_.step;
  summary.loss = last_loss_;
  summary.tokens = now_.tokens;
  summary.tokens_per_second = timed_seconds_ > 0 ? static_cast<double>(timed_tokens_) / timed_seconds_ : 0;
  summary.parameter_hash = parameters_->parameter_hash();
  summary.run = folder_->directory().string();
  OrderedJson members = {{"parameter_hash", hash_text(summary.parameter_hash)}};
  if (summary.validation_loss) members["validation_loss"] = *summary.validation_loss;
  reporter_->event("finished", now_.step, members);
  return summary;
}

void Trainer::stop_if_asked() {
  const int signal = request_.stop_signal == nullptr ? 0 : request_.stop_signal->load();
  if (signal == 0) return;
  if (saved_step_ != now_.step) save();
  reporter_->event("stopped", now_.step, {{"signal", signal_name(signal)}});
  throw Interrupted(fmt::format("stopped by {} behind step {}; the state is saved, --resume goes on from it",
                                signal_name(signal), now_.step));
}

std::vector<data::SampleBatch> Trainer::next_batches() const {
  std::vector<data::SampleBatch> batches;
  for (int64_t index = 0; index < cut_.micro_batches; ++index) {
    const int64_t first = cut_.first(index);
    batches.push_back(
        dataset_->training_batch(static_cast<uint64_t>(now_.samples + first), cut_.first(index + 1) - first));
  }
  return batches;
}

void Trainer::step() {
  const auto start = std::chrono::steady_clock::now();
  const std::vector<data::SampleBatch> batches = next_batches();
  std::vector<nn::MicroBatch> micro_batches;
  int64_t target_tokens = 0;
  for (const data::SampleBatch& batch : batches) {
    micro_batches.push_back(micro_batch_of(batch));
    target_tokens += batch.target_tokens;
  }
  if (target_tokens == 0) throw Error(fmt::format("step {}: no token of the batch is predicted", now_.step + 1));
  execute::StepInput input;
  input.micro_batches = micro_batches;
  input.step = now_.step;
  input.seed = static_cast<uint64_t>(run_.train.seed);
  input.target_tokens = target_tokens;
  input.optimizer = optimizer_.get();
  const execute::StepOutput output = executor_->run(schedule_, input);

  StepMetrics metrics;
  metrics.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  metrics.learning_rate = optimizer_->learning_rate(now_.step);
  metrics.loss = output.loss;
  metrics.gradient_norm = output.gradient_norm;
  metrics.tokens = target_tokens;
  now_.step += 1;
  now_.samples += cut_.global_batch;
  now_.tokens += target_tokens;
  now_.validation_loss.reset();
  whole_validation_loss_.reset();
  metrics.step = now_.step;
  last_loss_ = output.loss;
  timed_tokens_ += target_tokens;
  timed_seconds_ += metrics.seconds;
  const bool last = now_.step == run_.train.steps;
  const bool measured = run_.validation.every > 0 && (last || is_due(now_.step, run_.validation.every));
  if (measured) now_.validation_loss = validation_loss(run_.validation.tokens);
  metrics.validation_loss = now_.validation_loss;
  reporter_->step(metrics);
  if (record_ != nullptr) record_->add(now_.step, batches);
  if (is_due(now_.step, run_.samples.every)) sample_text();
  if (last || is_due(now_.step, run_.checkpoint.every)) save();
}

std::optional<double> Trainer::validation_loss(int64_t tokens) {
  const auto result = validate(*executor_, model_, *dataset_, {tokens, cut_.first(1)});
  if (!result) return std::nullopt;
  reporter_->line(fmt::format("step {}: validation loss {:.4f}", now_.step, result->loss));
  if (result->whole) whole_validation_loss_ = result->loss;
  return result->loss;
}

void Trainer::sample_text() {
  serve::GenerationOptions options;
  options.sampling.temperature = run_.samples.temperature;
  options.sampling.seed = static_cast<uint64_t>(run_.train.seed);
  options.max_tokens = run_.samples.tokens;
  const std::string text = serve::generate_text(model_, *parameters_, *tokenizer_, sample_prompt_, options).text;
  reporter_->line(fmt::format("step {}: {}{}", now_.step, run_.samples.prompt, text));
  reporter_->event("sample", now_.step, {{"prompt", run_.samples.prompt}, {"text", text}});
}

void Trainer::save() {
  save_checkpoint(checkpoints_, {run_, *dataset_, *parameters_, *optimizer_}, now_);
  saved_step_ = now_.step;
  reporter_->event("checkpoint", now_.step, {{"folder", (checkpoints_ / checkpoint_name(now_.step)).string()}});
}

}  // namespace weft::train
