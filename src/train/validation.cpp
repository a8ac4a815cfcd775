#include "train/validation.h"

#include <algorithm>

#include "schedule/schedule.h"
#include "train/batch.h"

namespace weft::train {

std::optional<ValidationResult> validate(execute::Executor& executor, const model::ModelDescription& model,
                                         const data::Dataset& dataset, const execute::Ranks& ranks,
                                         const ValidationSettings& settings) {
  const schedule::Layout& layout = ranks.layout();
  const schedule::Schedule schedule = schedule::expand(schedule::evaluate(model, 1), model, layout);
  const nn::Shard shard = ranks.store_layout(false).shard;
  const int64_t at_once = settings.sequences * layout.batch_ranks();
  double loss_sum = 0;
  int64_t tokens = 0;
  int64_t first = 0;
  for (; first < dataset.validation_windows(); first += at_once) {
    if (settings.tokens > 0 && tokens >= settings.tokens) break;
    const int64_t count = std::min(at_once, dataset.validation_windows() - first);
    const Range own = part(count, layout.batch_ranks(), ranks.batch_rank());
    const nn::MicroBatch micro_batch = micro_batch_of(dataset.validation_batch(first + own.begin, own.size()), shard);
    execute::StepInput input;
    input.micro_batches = {&micro_batch, 1};
    input.target_tokens = 1;  // the sum itself
    loss_sum += executor.run(schedule, input).loss;
    tokens += dataset.validation_batch(first, count).target_tokens;
  }
  if (tokens == 0) return std::nullopt;
  return ValidationResult{loss_sum / static_cast<double>(tokens), first >= dataset.validation_windows()};
}

}  // namespace weft::train
