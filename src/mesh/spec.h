// Placements and specs: how a tensor lies on a device mesh. No rank inside a spec, so that ranks in one process share
// it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace weft::mesh {

// What one mesh axis does with a tensor. The placement of a gradient follows from the forward one:
// Shard -> Shard, Replicate -> Partial, Partial -> Replicate, Invariant -> Invariant.
enum class PlacementKind : uint8_t {
  kShard,      // cut along `dim`
  kReplicate,  // the same value everywhere, used differently: its gradient is partial
  kInvariant,  // the same value everywhere, used alike: its gradient is the same everywhere
  kPartial,    // the value is the sum over the axis
  kRagged,     // a contiguous row-major range a rank: Spec::ragged_ends
};

struct Placement {
  PlacementKind kind = PlacementKind::kInvariant;
  int8_t dim = -1;  // of a Shard
  friend bool operator==(const Placement&, const Placement&) = default;
};

[[nodiscard]] Placement gradient_placement(Placement forward);

// "shard(0)", "replicate", ...
[[nodiscard]] std::string text(Placement placement);

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
[[nodiscard]] std::string_view text(ElementType type);  // "f32", "bf16", ...

// Interned: two equal specs are one object, so that equality is equality of pointers. Lives as long as the program.
struct Spec {
  Mesh mesh = {};
  std::vector<Placement> placements = {};  // one an axis
  // Every axis with a Shard: by dim, and those that cut the same dim outermost first. Empty asks intern for the mesh's
  // order.
  std::vector<int8_t> shard_order = {};
  std::vector<int64_t> ragged_ends = {};  // of a Ragged axis (one at most): where each rank's range ends, in elements
  std::vector<int64_t> shape = {};        // global
  // Of a dim that is cut: how many near-equal units (base/units.h) stay whole; 0: elements. Empty: all 0.
  std::vector<int64_t> units = {};
  ElementType element_type = ElementType::kFloat32;
  friend bool operator==(const Spec&, const Spec&) = default;

  // "f32[12, 64 in 8 units, 128] {dp: shard(0)}", for messages.
  [[nodiscard]] std::string text() const;
};

// The one object equal to `spec`. Throws Error that says what is wrong: placements that do not match the axes, a dim
// that does not exist, an order of axes that is not one, ragged ranges that do not fill the tensor or lie beside a
// Shard. Units that make no difference to what any rank holds are dropped, so that they do not tell two specs apart.
// Safe from several threads.
[[nodiscard]] const Spec* intern(Spec spec);

}  // namespace weft::mesh
