#include "train/memory_check.h"

#include <algorithm>

#include <fmt/format.h>

#include "model/memory.h"
#include "run/layout.h"
#include "run/timetable.h"

namespace weft::train {

std::string memory_shortage(const run::RunNode& run, const model::ModelDescription& model,
                            const std::vector<bool>& frozen, uint64_t available) {
  model::MemoryQuestion question;
  question.compute_bytes = run.train.precision == "bf16" ? 2 : 4;
  question.frozen = frozen;
  const schedule::Layout layout = run::layout_of(run);
  question.tensor = layout.tensor;
  question.context = layout.context;
  question.shards = layout.shards();
  question.zero = layout.zero;
  question.whole_buckets = layout.whole_buckets;
  const recipe::Timetable timetable = run::timetable_of(run);
  double needed = 0;
  model::Rows largest;
  for (const recipe::Stretch& stretch : timetable.stretches()) {
    if (stretch.first_step >= run.train.steps) break;
    // The first micro-batch is the largest.
    question.micro_batch = {run::batch_cut(run, stretch.global_batch).largest(), stretch.context};
    const double here = model::estimate_memory(model, question).total();
    if (here > needed) needed = here, largest = question.micro_batch;
  }
  question.micro_batch = largest;
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
