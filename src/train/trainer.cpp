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
#include "nn/segments.h"
#include "run/load.h"
#include "run/plan.h"
#include "run/timetable.h"
#include "serve/generate.h"
#include "train/batch.h"
#include "train/initial_weights.h"
#include "train/memory_check.h"
#include "train/same_run.h"
#include "train/trace_recorder.h"
#include "train/validation.h"

namespace weft::train {
namespace {

std::string_view signal_name(int signal) { return signal == SIGINT ? "SIGINT" : "SIGTERM"; }

bool is_due(int64_t step, int64_t every) { return every > 0 && step % every == 0; }

}  // namespace

Trainer::Trainer(run::RunNode run, const TrainRequest& request) : run_(std::move(run)), request_(request) {
  run::check_trainable(run_);
  timetable_ = std::make_unique<const recipe::Timetable>(run::timetable_of(run_));
  join_ranks();
  open_folder();
  data_ = request_.data.dataset != nullptr ? request_.data : open_data(run_);
  make_model();
  prepare_samples();
  load();
  enter_phase();
  write_start();
}

void Trainer::join_ranks() {
  comm::World& world = request_.world == nullptr ? alone_ : *request_.world;
  const schedule::Layout layout = run::layout_of(run_);
  run::check_ranks(layout, world.size());
  ranks_ = std::make_unique<execute::Ranks>(layout, world);
  check_same("run", config::dump(run_), ranks_->world());
}

// First of all, so that a mistake in the folder's name costs no time.
void Trainer::open_folder() {
  directory_ = run_.run.directory;
  if (leads()) {
    const auto start = request_.resume ? RunFolder::Start::kResume : RunFolder::Start::kNew;
    folder_ = std::make_unique<RunFolder>(directory_, start);
  }
  ranks_->world().barrier("the run's folder")->wait();
  checkpoints_ =
      run_.checkpoint.directory.empty() ? directory_ / "checkpoints" : std::filesystem::path(run_.checkpoint.directory);
}

void Trainer::make_model() {
  model_ = run::describe(run_);
  const std::vector<schedule::Stage> stages = run::pipeline_stages(run_, model_);
  const schedule::BucketRoles roles = schedule::bucket_roles(model_, stages);
  const std::vector<bool> frozen = frozen_parameters(run_.train, model_);
  const uint64_t available = available_memory() / static_cast<uint64_t>(ranks_on_this_machine(ranks_->world()));
  const std::string shortage = memory_shortage(run_, model_, frozen, available);
  if (!shortage.empty()) throw InputError(shortage);
  const at::ScalarType compute_type = run_.train.precision == "bf16" ? at::kBFloat16 : at::kFloat;
  parameters_ = std::make_unique<nn::ParameterStore>(model_, frozen, compute_type, at::kCPU,
                                                     ranks_->store_layout(run_.train.strict, &roles));
  traffic_ = std::make_unique<execute::ParameterTraffic>(model_, *parameters_, *ranks_);
  executor_ = std::make_unique<execute::Executor>(model_, nn::build_segments(model_), *parameters_, ranks_.get());
  optimizer_ = std::make_unique<RunOptimizer>(*timetable_, run::parameter_rules(run_, model_), model_, *parameters_);
  // A phase whose micro-batches the schedule cannot take is refused now, not when it begins.
  for (const recipe::Stretch& stretch : timetable_->stretches()) {
    if (stretch.first_step >= run_.train.steps) break;
    static_cast<void>(run::step_schedule(run_, model_, run::batch_cut(run_, stretch.global_batch).micro_batches));
  }
}

// What a step's batch needs, made anew where it changes.
void Trainer::enter_phase() {
  const recipe::Stretch* stretch = &timetable_->at(now_.step);
  if (stretch == std::exchange(stretch_, stretch)) return;
  cut_ = run::batch_cut(run_, stretch->global_batch);
  const schedule::Layout& layout = ranks_->layout();
  const schedule::Schedule step = run::step_schedule(run_, model_, cut_.micro_batches);
  plan_ = run::plan_text(run_, model_, step);
  check_same("plan", plan_, ranks_->world());
  schedule_ = schedule::expand(step, model_, layout);
  const std::string reason = schedule::validate(schedule_, model_, layout);
  if (!reason.empty()) throw Error("the step's schedule is not valid: " + reason);
  evaluation_ = schedule::expand(run::evaluation_schedule(step, layout.pipeline), model_, layout);
}

// Now, so that a prompt which the tokenizer cannot write is found before hours of training.
void Trainer::prepare_samples() {
  if (run_.samples.every == 0) return;
  if (data_.tokenizer == nullptr) throw InputError("samples.every: samples of text need a tokenizer (data.tokenizer)");
  if (!run_.samples.prompt.empty()) {
    sample_prompt_ = data_.tokenizer->encode(run_.samples.prompt);
  } else if (const auto beginning = data_.tokenizer->bos_id() ? data_.tokenizer->bos_id() : data_.tokenizer->eos_id()) {
    sample_prompt_ = {*beginning};
  } else if (const auto line_break = data_.tokenizer->token_id("\n")) {
    sample_prompt_ = {*line_break};
  } else {
    sample_prompt_ = {0};
  }
}

void Trainer::load() {
  if (request_.resume) {
    resume();
  } else if (request_.branch) {
    branch();
  } else {
    initialize_parameters(*parameters_, model_, run_.train);
  }
  const schedule::Layout& layout = ranks_->layout();
  if (layout.shards() > 1 && layout.zero < 3) traffic_->unshard_all();
}

void Trainer::resume() {
  const run::RunNode before = run::load_run(directory_ / "config.toml", {}).node;
  const std::string refused = run::refusal(before, run_);
  if (!refused.empty()) throw InputError(fmt::format("{}: {}", directory_.string(), refused));
  if (leads()) clean_checkpoints(checkpoints_);
  ranks_->world().barrier("clean checkpoints")->wait();
  const auto newest = newest_checkpoint(checkpoints_);
  if (!newest) {
    initialize_parameters(*parameters_, model_, run_.train);
    return;
  }
  now_ = load_checkpoint(newest->folder, state());
  saved_step_ = now_.step;
  check_step(newest->folder);
  check_samples(newest->folder);
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
  now_ = load_checkpoint(folder, state());
  check_step(folder);
  check_samples(folder);
}

// Phases of other sequences begin at samples, and those follow from the batches before them.
void Trainer::check_samples(const std::filesystem::path& checkpoint) const {
  const int64_t expected = timetable_->samples_before(now_.step);
  if (now_.samples == expected || run::data_phases(run_).size() == 1) return;
  throw InputError(
      fmt::format("{}: {} sequences were consumed, but the phases' batches up to step {} make {}; where phases change "
                  "the context or the mixture, those before the step must have the batches of the run",
                  checkpoint.string(), now_.samples, now_.step, expected));
}

void Trainer::check_step(const std::filesystem::path& checkpoint) const {
  if (now_.step <= run_.train.steps) return;
  throw InputError(
      fmt::format("{}: step {} is behind train.steps = {}", checkpoint.string(), now_.step, run_.train.steps));
}

void Trainer::write_start() {
  ranks_->world().barrier("all that is read before the start")->wait();
  if (!leads()) return;
  write_file(folder_->configuration(), config::dump(run_));
  write_file(directory_ / "plan.json", plan_);
  if (data_.tokenizer != nullptr) data_.tokenizer->save(directory_);
  reporter_ = std::make_unique<Reporter>(*folder_, now_.step, run_.train.steps);
  if (run_.train.record_batches) {
    record_ = std::make_unique<BatchRecord>(directory_ / "batches.jsonl", now_.step);
  }
  OrderedJson facts = {{"steps", run_.train.steps},
                       {"parameters", model_.parameter_count()},
                       {"data_fingerprint", hash_text(data_.dataset->fingerprint().hash())}};
  if (request_.branch) facts["from"] = request_.branch->run.string();
  if (ranks_->layout().ranks() > 1) facts["ranks"] = ranks_->layout().ranks();
  reporter_->event(request_.resume ? "resumed" : "started", now_.step, facts);
  reporter_->line(fmt::format("{}: {} parameters; {}", directory_.string(),
                              quantity_text(static_cast<double>(model_.parameter_count())), data_.dataset->summary()));
  if (now_.step > 0) reporter_->line(fmt::format("goes on behind step {}", now_.step));
}

TrainSummary Trainer::run() {
  try {
    if (now_.step == 0 && run_.checkpoint.initial && saved_step_ != 0) save();
    while (now_.step < run_.train.steps) {
      step();
      if (stopping_ && now_.step < run_.train.steps) stop();
    }
  } catch (const Interrupted&) {
    throw;
  } catch (const Error& error) {
    if (leads()) reporter_->event("failed", now_.step, {{"reason", error.what()}});
    throw;
  }
  TrainSummary summary;
  summary.validation_loss = whole_validation_loss_ ? whole_validation_loss_ : validation_loss(0);
  summary.steps = now_.step;
  summary.loss = last_loss_;
  summary.tokens = now_.tokens;
  summary.tokens_per_second = timed_seconds_ > 0 ? static_cast<double>(timed_tokens_) / timed_seconds_ : 0;
  summary.parameter_hash = traffic_->parameter_hash();
  summary.run = directory_.string();
  if (!leads()) return summary;
  OrderedJson members = {{"parameter_hash", hash_text(summary.parameter_hash)}};
  if (summary.validation_loss) members["validation_loss"] = *summary.validation_loss;
  reporter_->event("finished", now_.step, members);
  return summary;
}

void Trainer::stop() {
  if (saved_step_ != now_.step) save();
  const int signal = request_.stop_signal == nullptr ? 0 : request_.stop_signal->load();
  const std::string_view name = signal == 0 ? "another rank" : signal_name(signal);
  if (leads()) reporter_->event("stopped", now_.step, {{"signal", name}});
  throw Interrupted(
      fmt::format("stopped by {} behind step {}; the state is saved, --resume goes on from it", name, now_.step));
}

data::SampleBatch Trainer::training_batch(Range sequences) const {
  return data_.dataset->training_batch(static_cast<uint64_t>(now_.samples + sequences.begin), sequences.size());
}

// Of the whole batch, which every rank can count for itself.
int64_t Trainer::target_tokens(const std::vector<data::SampleBatch>& own) const {
  if (cut_.ranks > 1) {
    return data_.dataset->training_targets(static_cast<uint64_t>(now_.samples), cut_.global_batch);
  }
  int64_t tokens = 0;
  for (const data::SampleBatch& batch : own) tokens += batch.target_tokens;
  return tokens;
}

void Trainer::step() {
  const auto start = std::chrono::steady_clock::now();
  enter_phase();
  std::vector<data::SampleBatch> batches;
  std::vector<nn::MicroBatch> micro_batches;
  for (int64_t index = 0; index < cut_.micro_batches; ++index) {
    batches.push_back(training_batch(cut_.sequences(ranks_->batch_rank(), index)));
    micro_batches.push_back(micro_batch_of(batches.back(), parameters_->layout().shard));
  }
  execute::StepInput input;
  input.micro_batches = micro_batches;
  input.step = now_.step;
  input.seed = static_cast<uint64_t>(run_.train.seed);
  input.first_sample = now_.samples;
  input.samples = cut_.global_batch;
  input.target_tokens = target_tokens(batches);
  input.stop = request_.stop_signal != nullptr && request_.stop_signal->load() != 0;
  input.optimizer = optimizer_.get();
  if (input.target_tokens == 0) throw Error(fmt::format("step {}: no token of the batch is predicted", now_.step + 1));
  std::optional<TraceRecorder> trace;
  if (now_.step + 1 == run_.run.trace) input.observer = &trace.emplace(ranks_->world(), ranks_->role());
  const execute::StepOutput output = executor_->run(schedule_, input);
  if (trace) trace->write(directory_ / "trace.json", fmt::format("{}, step {}", run_.run.name, run_.run.trace));

  StepMetrics metrics;
  metrics.tokens = input.target_tokens;
  metrics.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  finish_step(output, metrics);
}

void Trainer::finish_step(const execute::StepOutput& output, StepMetrics metrics) {
  metrics.learning_rate = optimizer_->learning_rate(now_.step);
  metrics.loss = output.loss;
  metrics.gradient_norm = output.gradient_norm;
  if (record_ != nullptr) record_->add(now_.step + 1, {training_batch({0, cut_.global_batch})});
  now_.step += 1;
  now_.samples += cut_.global_batch;
  now_.tokens += metrics.tokens;
  now_.validation_loss.reset();
  whole_validation_loss_.reset();
  metrics.step = now_.step;
  last_loss_ = output.loss;
  stopping_ = output.stop;
  timed_tokens_ += metrics.tokens;
  timed_seconds_ += metrics.seconds;
  const bool last = now_.step == run_.train.steps;
  const bool measured = run_.validation.every > 0 && (last || is_due(now_.step, run_.validation.every));
  if (measured) now_.validation_loss = validation_loss(run_.validation.tokens);
  metrics.validation_loss = now_.validation_loss;
  if (leads()) reporter_->step(metrics);
  if (is_due(now_.step, run_.samples.every)) sample_text();
  if (last || is_due(now_.step, run_.checkpoint.every)) save();
}

std::optional<double> Trainer::validation_loss(int64_t tokens) {
  const auto result = validate(*executor_, evaluation_, *data_.dataset, *ranks_, {tokens, cut_.largest()});
  if (!result) return std::nullopt;
  if (leads()) reporter_->line(fmt::format("step {}: validation loss {:.4f}", now_.step, result->loss));
  if (result->whole) whole_validation_loss_ = result->loss;
  return result->loss;
}

// With many ranks rank 0 makes the text, on a model that it gathers from all.
void Trainer::sample_text() {
  std::unique_ptr<nn::ParameterStore> gathered;
  if (ranks_->layout().ranks() > 1) {
    gathered = std::make_unique<nn::ParameterStore>(model_, std::vector<bool>(model_.parameters.size(), true),
                                                    parameters_->compute_type(), at::kCPU);
    for (int index = 0; index < static_cast<int>(parameters_->size()); ++index) {
      gathered->assign(index, traffic_->whole_parameter(index));
    }
    gathered->refresh_compute_copies();
  }
  if (!leads()) return;
  serve::GenerationOptions options;
  options.sampling.temperature = run_.samples.temperature;
  options.sampling.seed = static_cast<uint64_t>(run_.train.seed);
  options.max_tokens = run_.samples.tokens;
  nn::ParameterStore& whole = gathered ? *gathered : *parameters_;
  const std::string text = serve::generate_text(model_, whole, *data_.tokenizer, sample_prompt_, options).text;
  reporter_->line(fmt::format("step {}: {}{}", now_.step, run_.samples.prompt, text));
  reporter_->event("sample", now_.step, {{"prompt", run_.samples.prompt}, {"text", text}});
}

TrainedState Trainer::state() { return {run_, *data_.dataset, *parameters_, *optimizer_, *traffic_, *ranks_}; }

void Trainer::save() {
  save_checkpoint(checkpoints_, state(), now_);
  saved_step_ = now_.step;
  if (!leads()) return;
  reporter_->event("checkpoint", now_.step, {{"folder", (checkpoints_ / checkpoint_name(now_.step)).string()}});
}

}  // namespace weft::train
