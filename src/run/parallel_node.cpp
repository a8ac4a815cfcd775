#include "run/parallel_node.h"

namespace weft::run {

using config::FieldList;
using config::Hint;

namespace {

constexpr double kGreatestDegree = 1 << 20;

}  // namespace

void ParallelNode::fields(FieldList& list) {
  const auto degree = [&](const char* name, int64_t& field, const char* text) {
    list.add(name, field, Hint::kPerformance, "ranks", text).at_least(1).at_most(kGreatestDegree);
  };
  degree("pipeline", pipeline, "roles of a pipeline, each with its stages of the model");
  degree("data", data, "replicas, each of which computes a part of the batch");
  degree("fsdp", fsdp, "ranks that share one replica's state and divide its batch");
  degree("tensor", tensor, "ranks that divide each matrix");
  degree("context", context, "ranks that divide each sequence");
  list.add("sequence", sequence, Hint::kPerformance, "",
           "norms and residuals hold a part of the sequence a tensor rank");
  list.add("zero", zero, Hint::kPerformance, "",
           "1: optimizer state is divided, 2: gradients too, 3: parameters too; over fsdp, or over data where that is "
           "1. "
           "Unset: 3 with fsdp > 1, else 0")
      .at_least(0)
      .at_most(3);
  list.add("whole_stages", whole_stages, Hint::kPerformance, "stages",
           "with zero = 3 and several stages, how many are whole at a time on a rank")
      .at_least(1)
      .at_most(kGreatestDegree);
  list.add("whole_buckets", whole_buckets, Hint::kPerformance, "layers",
           "with zero = 3 and one stage, how many are whole at a time on a rank")
      .at_least(1);
}

void CommNode::fields(FieldList& list) {
  list.add("backend", backend, Hint::kPerformance, "", "of ranks that are processes").one_of({"gloo"});
  list.add("address", address, Hint::kPerformance, "", "of rank 0's machine; empty: the launcher's");
  list.add("port", port, Hint::kPerformance, "", "of rank 0's store; 0: the launcher's").at_least(0).at_most(65535);
  list.add("interface", interface, Hint::kPerformance, "",
           "network interface, as eth0; empty: the one that has this host's address");
  list.add("timeout", timeout, Hint::kPerformance, "seconds", "that a rank waits for the others in one call")
      .at_least(0.001);
}

}  // namespace weft::run
