#include "train/reporter.h"

#include <chrono>
#include <cstdio>

#include <fmt/format.h>

#include "base/json.h"

namespace weft::train {
namespace {

constexpr std::chrono::seconds kFlushInterval{2};

double seconds_since_1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// Events of one run are never dropped: they tell what happened, resumes included.
std::optional<int64_t> all_steps() { return std::nullopt; }

}  // namespace

Reporter::Reporter(const RunFolder& folder, int64_t done, int64_t steps)
    : metrics_(folder.metrics(), done),
      events_(folder.events(), all_steps()),
      curves_(folder.directory().string()),
      progress_("training", "steps", static_cast<double>(steps - done)),
      first_(done),
      flushed_(std::chrono::steady_clock::now()) {
  if (done > 0) curves_.restart(done + 1);
}

void Reporter::step(const StepMetrics& metrics) {
  const double rate = metrics.seconds > 0 ? static_cast<double>(metrics.tokens) / metrics.seconds : 0;
  OrderedJson row = {{"step", metrics.step},
                     {"loss", metrics.loss},
                     {"learning_rate", metrics.learning_rate},
                     {"tokens", metrics.tokens},
                     {"tokens_per_second", rate},
                     {"grad_norm", metrics.gradient_norm},
                     {"step_ms", metrics.seconds * 1e3}};
  if (metrics.validation_loss) row["validation_loss"] = *metrics.validation_loss;
  metrics_.append(row);
  curves_.scalar("train/loss", metrics.step, static_cast<float>(metrics.loss));
  curves_.scalar("train/learning_rate", metrics.step, static_cast<float>(metrics.learning_rate));
  curves_.scalar("train/grad_norm", metrics.step, static_cast<float>(metrics.gradient_norm));
  curves_.scalar("speed/tokens_per_second", metrics.step, static_cast<float>(rate));
  if (metrics.validation_loss) {
    curves_.scalar("validation/loss", metrics.step, static_cast<float>(*metrics.validation_loss));
  }
  if (const auto now = std::chrono::steady_clock::now(); now - flushed_ > kFlushInterval) {
    curves_.flush();  // for whoever watches
    flushed_ = now;
  }
  progress_.update(static_cast<double>(metrics.step - first_),
                   fmt::format("loss {:.4f}  {} tokens/s", metrics.loss, quantity_text(rate)));
}

void Reporter::event(std::string_view name, int64_t step, const OrderedJson& members) {
  OrderedJson object = {{"time", seconds_since_1970()}, {"event", name}, {"step", step}};
  for (const auto& [key, value] : members.items()) object[key] = value;
  events_.append(object);
  curves_.flush();
}

void Reporter::line(std::string_view text) {
  progress_.finish();
  fmt::print(stderr, "{}\n", text);
}

}  // namespace weft::train
