#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "app/assignments.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/progress.h"
#include "comm/gloo/gloo_world.h"
#include "comm/threads.h"
#include "engine/bodies.h"
#include "engine/process.h"
#include "operate/rank_environment.h"
#include "run/layout.h"
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

train::TrainRequest request_of(const app::Invocation& invocation) {
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
  return request;
}

// All ranks of a run as threads of this process.
train::TrainSummary train_in_threads(int ranks, run::RunNode run, train::TrainRequest request) {
  run::check_ranks(run::layout_of(run), ranks);
  request.data = train::open_data(run);
  train::TrainSummary first;
  const auto timeout = std::chrono::milliseconds(static_cast<int64_t>(run.comm.timeout * 1000));
  comm::run_ranks(ranks,
                  [&](comm::World& world) {
                    train::TrainRequest own = request;
                    own.world = &world;
                    const train::TrainSummary summary = train::Trainer(run, own).run();
                    if (world.rank() == 0) first = summary;
                  },
                  {timeout});
  return first;
}

train::TrainSummary train_in_process(const operate::RankEnvironment& ranks, run::RunNode run,
                                     train::TrainRequest request) {
  std::unique_ptr<comm::World> world;
  if (ranks.size > 1) {
    const run::CommNode& node = run.comm;
    comm::CommSettings settings;
    settings.address = node.address;
    settings.port = static_cast<int>(node.port);
    settings.interface = node.interface;
    settings.timeout = std::chrono::milliseconds(static_cast<int64_t>(node.timeout * 1000));
    world = comm::make_gloo_world(ranks, settings);
    request.world = world.get();
  }
  // Its groups must still be there when the others are told why.
  train::Trainer trainer(std::move(run), request);
  try {
    return trainer.run();
  } catch (const std::exception& error) {
    if (world != nullptr) world->abort(error.what());
    throw;
  }
}

}  // namespace

ExitCode run_train(const app::Invocation& invocation) {
  const operate::RankEnvironment ranks =
      operate::read_rank_environment([](const char* name) { return std::getenv(name); });
  run::LoadedRun loaded = run::load_run(invocation.text("RUN.toml"), app::assignments(invocation));
  if (ranks.rank == 0) {
    for (const std::string& warning : loaded.warnings) fmt::print(stderr, "weft: {}\n", warning);
  }
  const train::TrainRequest request = request_of(invocation);
  const run::TrainNode& settings = loaded.node.train;
  const bool alone = ranks.size == 1 && ranks.threads <= 1;
  set_threads(settings.threads == 0 && !alone ? 1 : static_cast<int>(settings.threads), settings.strict);
  watch_stop_signals();
  const train::TrainSummary summary = ranks.threads > 1
                                          ? train_in_threads(ranks.threads, std::move(loaded.node), request)
                                          : train_in_process(ranks, std::move(loaded.node), request);
  if (ranks.rank == 0) fmt::print("{}\n", invocation.json() ? dump_json(as_json(summary)) : as_text(summary));
  return ExitCode::kDone;
}

}  // namespace weft::engine
