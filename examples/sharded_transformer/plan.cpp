#include "transformer.h"

namespace weft::example {

using tensor::Moment;

std::vector<tensor::PlanLine> parallel_plan() {
  return {
      {"*", Moment::kKept, "fsdp: shard(0)"},
      {"*", Moment::kUsed, "fsdp: replicate"},
      {"embedding", Moment::kKept, "tp: shard(0) in 8, fsdp: shard(1)"},
      {"*.qkv.*", Moment::kKept, "tp: shard(0) in 4, fsdp: shard(1)"},
      {"*.output", Moment::kKept, "tp: shard(1) in 4"},
      {"*.gate", Moment::kKept, "tp: shard(0) in 8, fsdp: shard(1)"},
      {"*.up", Moment::kKept, "tp: shard(0) in 8, fsdp: shard(1)"},
      {"*.down", Moment::kKept, "tp: shard(1) in 8"},
      {"*norm", Moment::kUsed, "tp: replicate"},
      {"tokens", Moment::kValue, "fsdp: shard(0), tp: replicate"},
      {"table", Moment::kValue, "fsdp: replicate, tp: replicate"},
      {"*.in", Moment::kValue, "tp: replicate"},
      {"*.out", Moment::kValue, "tp: shard(1)"},
      {"loss", Moment::kValue, "fsdp: invariant, tp: invariant"},
  };
}

}  // namespace weft::example
