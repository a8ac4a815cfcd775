#include "train/validation.h"

#include <algorithm>
#include <vector>

#include "train/batch.h"

namespace weft::train {

std::optional<ValidationResult> validate(execute::Executor& executor, const schedule::Schedule& forwards,
                                         const data::Dataset& dataset, const execute::Ranks& ranks,
                                         const ValidationSettings& settings) {
  const schedule::Layout& layout = ranks.layout();
  const nn::Shard shard = ranks.store_layout(false).shard;
  const int64_t micro_batches = forwards.micro_batches;
  const int64_t at_once = settings.sequences * micro_batches * layout.batch_ranks();
  long double loss_sum = 0;  // wide enough that the strict sums of any cut add up alike
  int64_t tokens = 0;
  int64_t first = 0;
  for (; first < dataset.validation_windows(); first += at_once) {
    if (settings.tokens > 0 && tokens >= settings.tokens) break;
    const int64_t count = std::min(at_once, dataset.validation_windows() - first);
    const Range own = part(count, layout.batch_ranks(), ranks.batch_rank());
    std::vector<nn::MicroBatch> batch;
    for (int64_t index = 0; index < micro_batches; ++index) {
      const Range inside = part(own.size(), micro_batches, index);
      batch.push_back(micro_batch_of(dataset.validation_batch(first + own.begin + inside.begin, inside.size()), shard));
    }
    execute::StepInput input;
    input.micro_batches = batch;
    input.target_tokens = 1;  // the sum itself
    loss_sum += executor.run(forwards, input).loss;
    tokens += dataset.validation_batch(first, count).target_tokens;
  }
  if (tokens == 0) return std::nullopt;
  return ValidationResult{static_cast<double>(loss_sum / tokens), first >= dataset.validation_windows()};
}

}  // namespace weft::train
