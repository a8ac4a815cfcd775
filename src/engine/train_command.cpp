#include <cstdio>

#include <fmt/format.h>

#include "app/assignments.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/progress.h"
#include "engine/bodies.h"
#include "engine/process.h"
#include "run/load.h"
#include "train/trainer.h"

namespace weft::engine {
namespace {

OrderedJson as_json(const train::TrainSummary& summary) {
  const auto or_null = [](std::optional<double> value) { return value ? OrderedJson(*value) : OrderedJson(); };
  return {{"steps", summary.steps},
          {"loss", or_null(summary.loss)},
          {"validation_loss", or_null(summary.validation_loss)},
          {"tokens", summary.tokens},
          {"tokens_per_second", summary.tokens_per_second},
          {"parameter_hash", hash_text(summary.parameter_hash)},
          {"run", summary.run}};
}

std::string as_text(const train::TrainSummary& summary) {
  std::string text = fmt::format("{}: {} steps", summary.run, summary.steps);
  if (summary.loss) text += fmt::format(", loss {:.4f}", *summary.loss);
  if (summary.validation_loss) text += fmt::format(", validation loss {:.4f}", *summary.validation_loss);
  text += fmt::format(", {} tokens", quantity_text(static_cast<double>(summary.tokens)));
  if (summary.tokens_per_second > 0) text += fmt::format(" at {}/s", quantity_text(summary.tokens_per_second));
  return text + ", parameters " + hash_text(summary.parameter_hash);
}

}  // namespace

ExitCode run_train(const app::Invocation& invocation) {
  run::LoadedRun loaded = run::load_run(invocation.text("RUN.toml"), app::assignments(invocation));
  for (const std::string& warning : loaded.warnings) fmt::print(stderr, "weft: {}\n", warning);
  set_threads(static_cast<int>(loaded.node.train.threads));
  watch_stop_signals();
  train::TrainRequest request;
  request.resume = invocation.flag("--resume");
  request.stop_signal = &stop_signal();
  if (invocation.given("--branch") != invocation.given("--from")) {
    throw InputError("--branch STEP and --from RUN go together");
  }
  if (invocation.given("--branch")) {
    if (request.resume) throw InputError("--branch starts a new run, --resume goes on with one: give one of them");
    request.branch = train::BranchPoint{invocation.text("--from"), invocation.integer("--branch")};
  }
  train::Trainer trainer(std::move(loaded.node), request);
  const train::TrainSummary summary = trainer.run();
  fmt::print("{}\n", invocation.json() ? dump_json(as_json(summary)) : as_text(summary));
  return ExitCode::kDone;
}

}  // namespace weft::engine
