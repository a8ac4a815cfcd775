#include "run/layout.h"

#include <fmt/format.h>

#include "base/error.h"
#include "model/nodes.h"

namespace weft::run {
namespace {

void fail_if(bool wrong, const std::string& message) {
  if (wrong) throw InputError(message);
}

}  // namespace

schedule::Layout layout_of(const RunNode& run) {
  const ParallelNode& parallel = run.parallel;
  schedule::Layout layout;
  layout.pipeline = parallel.pipeline;
  layout.data = parallel.data;
  layout.fsdp = parallel.fsdp;
  layout.context = parallel.context;
  layout.tensor = parallel.tensor;
  layout.sequence = parallel.sequence;
  layout.zero = static_cast<int>(parallel.zero.value_or(parallel.fsdp > 1 ? 3 : 0));
  layout.whole_stages = static_cast<int>(parallel.whole_stages);
  layout.whole_buckets = static_cast<int>(parallel.whole_buckets);

  fail_if(layout.sequence && layout.tensor == 1,
          "parallel.sequence divides the sequence over the tensor ranks: it needs parallel.tensor > 1");
  fail_if(layout.fsdp > 1 && layout.zero == 0,
          "parallel.zero = 0 divides nothing over parallel.fsdp ranks; give parallel.data those ranks instead");
  if (const auto* attention = dynamic_cast<const model::GroupedQueryAttention*>(run.model.layer.attention.get())) {
    fail_if(layout.tensor > attention->heads,
            fmt::format("parallel.tensor is {}, but the model has {} heads (model.heads), which are cut whole",
                        layout.tensor, attention->heads.get()));
  }
  fail_if(layout.tensor > kUnits, fmt::format("parallel.tensor is {}: feature dims consist of {} units, which are cut "
                                              "whole; at most {} ranks can divide them",
                                              layout.tensor, kUnits, kUnits));
  fail_if(layout.context > kUnits, fmt::format("parallel.context is {}: a sequence consists of {} units, which are cut "
                                               "whole; at most {} ranks can divide them",
                                               layout.context, kUnits, kUnits));
  fail_if(run.train.strict && run.train.precision != "fp32",
          fmt::format("train.strict needs train.precision = \"fp32\", not \"{}\"", run.train.precision));
  return layout;
}

void check_ranks(const schedule::Layout& layout, int64_t ranks) {
  if (layout.ranks() == ranks) return;
  throw InputError(fmt::format(
      "parallel: pipeline {} x data {} x fsdp {} x context {} x tensor {} are {} ranks, but there {} {}; `weft launch "
      "--ranks {}` starts as many as needed",
      layout.pipeline, layout.data, layout.fsdp, layout.context, layout.tensor, layout.ranks(),
      ranks == 1 ? "is" : "are", ranks, layout.ranks()));
}

Range BatchCut::sequences(int64_t rank, int64_t micro_batch) const {
  const Range mine = part(global_batch, ranks, rank);
  const Range inside = part(mine.size(), micro_batches, micro_batch);
  return {mine.begin + inside.begin, mine.begin + inside.end};
}

BatchCut batch_cut(const RunNode& run, int64_t global_batch) {
  BatchCut cut;
  cut.global_batch = global_batch;
  cut.ranks = run.parallel.data * run.parallel.fsdp;
  const int64_t most = part(cut.global_batch, cut.ranks, 0).size();
  if (run.train.micro_batch) cut.micro_batches = (most + *run.train.micro_batch - 1) / *run.train.micro_batch;
  if (run.schedule.micro_batches) {
    if (run.train.micro_batch && *run.schedule.micro_batches != cut.micro_batches) {
      throw InputError(fmt::format(
          "train.micro_batch is {} and schedule.micro_batches is {}, but {} sequences a rank have {} micro-batches of "
          "{}; give one of the two",
          *run.train.micro_batch, *run.schedule.micro_batches, most, cut.micro_batches, *run.train.micro_batch));
    }
    cut.micro_batches = std::min(*run.schedule.micro_batches, most);  // empty ones on every rank need no action
  }
  return cut;
}

}  // namespace weft::run
