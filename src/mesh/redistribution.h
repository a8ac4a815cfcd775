// How a tensor gets from one spec to another: the cheapest steps, each one collective over one flattened set of axes or
// no communication at all. docs/sharded-tensors.md.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "mesh/device_mesh.h"
#include "mesh/spec.h"

namespace weft::mesh {

enum class StepKind : uint8_t {
  kRelabel,        // replicate <-> invariant: nothing moves
  kSlice,          // replicate, invariant -> shard, ragged: keep a part
  kZeroFill,       // shard, ragged -> partial: zeros around the own part
  kMask,           // replicate, invariant -> partial: zeros on all ranks but the first of the axes
  kReduceScatter,  // partial -> shard, ragged
  kAllToAll,       // shard -> shard: another dim, or another order of the axes that cut one
  kAllGather,      // shard, ragged -> replicate, invariant
  kAllReduce,      // partial -> replicate, invariant
};
[[nodiscard]] std::string_view text(StepKind kind);
[[nodiscard]] constexpr bool communicates(StepKind kind) { return kind >= StepKind::kReduceScatter; }

struct RedistributionStep {
  StepKind kind = StepKind::kRelabel;
  AxisSet axes = 0;            // whose placements it changes
  const Spec* from = nullptr;  // before
  const Spec* to = nullptr;    // after
  double seconds = 0;          // by the model of links
};

// An axis's connection. A collective of n ranks that has `bytes` of whole tensor takes
//   latency + bytes / bytes_per_second * (n - 1) / n,        an all-reduce twice the second term;
// over several axes with the worst latency and rate of them.
struct Link {
  double latency = 10e-6;  // seconds
  double bytes_per_second = 10e9;
};

// The cheapest steps; none where from == to. Both specs are interned, of the same mesh, shape and element type; throws
// Error that names both where they are not. Transitions of one kind are merged over the flattened axes, adjacent or
// not. `links`: one an axis, or none for the defaults.
[[nodiscard]] std::vector<RedistributionStep> plan_redistribution(const Spec& from, const Spec& to,
                                                                  const std::vector<Link>& links = {});

// "all-gather over dp+fsdp, slice over tp", for messages and tests.
[[nodiscard]] std::string text(const std::vector<RedistributionStep>& steps);

}  // namespace weft::mesh
