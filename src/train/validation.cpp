#include "train/validation.h"

#include <algorithm>

#include "schedule/schedule.h"
#include "train/batch.h"

namespace weft::train {

std::optional<ValidationResult> validate(execute::Executor& executor, const model::ModelDescription& model,
                                         const data::Dataset& dataset, const ValidationSettings& settings) {
  const schedule::Schedule schedule = schedule::expand(schedule::evaluate(model, 1), model);
  double loss_sum = 0;
  int64_t tokens = 0;
  int64_t first = 0;
  for (; first < dataset.validation_windows(); first += settings.sequences) {
    if (settings.tokens > 0 && tokens >= settings.tokens) break;
    const int64_t count = std::min(settings.sequences, dataset.validation_windows() - first);
    const data::SampleBatch batch = dataset.validation_batch(first, count);
    const nn::MicroBatch micro_batch = micro_batch_of(batch);
    execute::StepInput input;
    input.micro_batches = {&micro_batch, 1};
    input.target_tokens = 1;  // the sum itself
    loss_sum += executor.run(schedule, input).loss;
    tokens += batch.target_tokens;
  }
  if (tokens == 0) return std::nullopt;
  return ValidationResult{loss_sum / static_cast<double>(tokens), first >= dataset.validation_windows()};
}

}  // namespace weft::train
