#include "train/memory_check.h"

#include <algorithm>

#include <fmt/format.h>

#include "model/memory.h"
#include "run/layout.h"

namespace weft::train {

std::string memory_shortage(const run::RunNode& run, const model::ModelDescription& model,
                            const std::vector<bool>& frozen, uint64_t available) {
  const run::BatchCut cut = run::batch_cut(run);
  model::MemoryQuestion question;
  question.micro_batch = {cut.largest(), run.data.context};  // the first is the largest
  question.compute_bytes = run.train.precision == "bf16" ? 2 : 4;
  question.frozen = frozen;
  const schedule::Layout layout = run::layout_of(run);
  question.tensor = layout.tensor;
  question.context = layout.context;
  question.shards = layout.shards();
  question.zero = layout.zero;
  question.whole_buckets = layout.whole_buckets;
  const double needed = model::estimate_memory(model, question).total();
  const auto limit = static_cast<double>(available);
  if (needed <= limit) return "";
  std::string message = fmt::format("the run needs about {:.2f} GiB of memory, {:.2f} GiB are available",
                                    needed / 0x1p30, limit / 0x1p30);
  const int64_t fitting = std::min(model::fitting_sequences(model, question, limit), run.train.global_batch);
  if (fitting > 0) {
    return message + fmt::format("; train.micro_batch = {} would fit (it is {} now), with the same result", fitting,
                                 question.micro_batch.sequences);
  }
  question.micro_batch = {1, 1};
  const double least = model::estimate_memory(model, question).total();
  if (least > limit) {
    return message + fmt::format(
                         "; even one token a micro-batch needs {:.2f} GiB: the model is too large for this "
                         "machine",
                         least / 0x1p30);
  }
  return message + "; not even one sequence fits: make data.context shorter";
}

}  // namespace weft::train
