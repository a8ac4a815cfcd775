// Puts weight gradients between forwards and backwards for the input whose order is given, as Zero Bubble Pipeline
// Parallelism does (arXiv 2401.10241, section 3.1): where a role waits long enough, where memory has no room for the
// next forward, and the rest behind everything. By the rules of timeline.h.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "schedule/schedule.h"
#include "schedule/timeline.h"

namespace weft::schedule {

struct Computation {
  int32_t stage = 0;
  int32_t micro_batch = 0;
  bool forward = false;  // otherwise the backward for the input
};

// What a role computes, in its order, and how long it must wait, in times of a weight gradient, for one to go there.
struct RoleOrder {
  std::vector<Computation> computations;
  double gap = 1;
};

struct Filled {
  double makespan = std::numeric_limits<double>::infinity();
  double span = std::numeric_limits<double>::infinity();  // as in Timeline
};

class WeightFiller {
 public:
  // A role may hold `memory` activations of a micro-batch through one stage, each whole from its forward to its
  // backward for the input, and `weight_share` of it from there to its weight gradient. `durations` must outlive this.
  WeightFiller(std::vector<Stage> stages, int32_t micro_batches, const Durations& durations, double memory,
               double weight_share);

  // Infinite where memory has no room for the order, or the order hangs. Adds the actions to `result`, if there is one.
  [[nodiscard]] Filled fill(const std::vector<RoleOrder>& orders, Schedule* result = nullptr);

 private:
  struct Role {
    size_t next = 0;
    double now = 0, begin = 0, held = 0;
    bool waiting = false;
    std::vector<Computation> inputs;  // backwards for the input, in their order
    size_t weights = 0;               // of these that have their weight gradients
  };

  [[nodiscard]] size_t cell(int32_t stage, int32_t micro_batch) const;
  [[nodiscard]] double inputs_there(const Computation& computation) const;
  bool advance(size_t role, const RoleOrder& order);
  void finish(size_t role, const Computation& computation);
  void add_weight(size_t role);
  void add(Op op, size_t role, const Computation& computation);

  std::vector<Stage> stages_;
  size_t micro_batches_;
  const Durations& durations_;
  double memory_, weight_share_;
  std::vector<Role> roles_;
  std::vector<double> forward_ends_, input_ends_;  // by cell
  std::vector<size_t> open_;
  bool out_of_memory_ = false;
  Schedule* result_ = nullptr;
};

// The durations of a generator's stages, where frozen ones have no weight gradients and leading ones no backward.
[[nodiscard]] Durations durations_of(const GenerateOptions& options, size_t stages);

}  // namespace weft::schedule
