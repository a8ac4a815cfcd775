// Placements and specs: how a tensor lies on a device mesh. No rank inside a spec, so that ranks in one process share it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace weft::mesh {

// What one mesh axis does with a tensor. The placement of a gradient follows from the forward one:
// Shard -> Shard, Replicate -> Partial, Partial -> Replicate, Invariant -> Invariant.
enum class PlacementKind : uint8_t {
  kShard,      // cut along `dim`
  kReplicate,  // the same value everywhere, used differently: its gradient is partial
  kInvariant,  // the same value everywhere, used alike: its gradient is the same everywhere
  kPartial,    // the value is the sum over the axis
  kRagged,     // a contiguous row-major range a rank
};

struct Placement {
  PlacementKind kind = PlacementKind::kInvariant;
  int8_t dim = -1;  // of a Shard
  friend bool operator==(const Placement&, const Placement&) = default;
};

[[nodiscard]] Placement gradient_placement(Placement forward);

// Named axes over ranks. Canonical names: pp, dp, fsdp, cp, tp, ep. A mesh of one rank has no axes.
struct Axis {
  std::string name;
  int32_t size = 1;
  friend bool operator==(const Axis&, const Axis&) = default;
};
struct Mesh {
  std::vector<Axis> axes;
  [[nodiscard]] int64_t ranks() const;
  friend bool operator==(const Mesh&, const Mesh&) = default;
};

enum class ElementType : uint8_t { kFloat32, kBFloat16, kFloat16, kFloat64, kInt64, kInt32, kUInt8 };
[[nodiscard]] int64_t element_size(ElementType type);

// Interned: two equal specs are one object, so that equality is equality of pointers. Lives as long as the program.
struct Spec {
  Mesh mesh;
  std::vector<Placement> placements;   // one an axis
  std::vector<int8_t> shard_order;     // axes that cut one dim, outermost first
  std::vector<int64_t> shape;          // global
  ElementType element_type = ElementType::kFloat32;
  friend bool operator==(const Spec&, const Spec&) = default;

  // "f32[12, 64, 128] {dp: shard(0)}", for messages.
  [[nodiscard]] std::string text() const;
};

// The one object equal to `spec`. Checks that placements match the axes and dims exist. Safe from several threads.
[[nodiscard]] const Spec* intern(Spec spec);

}  // namespace weft::mesh
