// How tensor parallelism divides a parameter. Ranks hold whole units or whole heads (base/units.h), so that sums over
// them do not depend on the number of ranks.
#pragma once

#include <cstdint>

#include "base/units.h"

namespace weft::model {

// The heads of an attention. Each key/value head serves query / key_value query heads, in order.
struct Heads {
  int64_t query = 0;
  int64_t key_value = 0;
  [[nodiscard]] int64_t group() const { return query / key_value; }
  friend bool operator==(const Heads&, const Heads&) = default;
};

// What a tensor rank computes of them. With at most as many ranks as key/value heads, groups (a key/value head with its
// query heads) are divided as part() divides; with more ranks, single query heads are.
[[nodiscard]] Range held_query_heads(const Heads& heads, int64_t tensor, int64_t rank);
// The key/value heads that these query heads read: with more ranks than key/value heads several ranks hold the same.
[[nodiscard]] Range held_key_value_heads(const Heads& heads, int64_t tensor, int64_t rank);

// The part of one dim that each rank holds. Decided by the model when it describes the parameter.
struct TensorCut {
  enum class Kind {
    kWhole,          // every rank holds the whole parameter
    kUnits,          // the dim consists of weft::kUnits near-equal units
    kQueryHeads,     // ... of query heads
    kKeyValueHeads,  // ... of key/value heads
  };
  Kind kind = Kind::kWhole;
  int dim = 0;
  Heads heads;  // of the kinds of heads

  // Elements of the dim, which has `size` of them, that rank `rank` of `tensor` holds. Consecutive; of kKeyValueHeads
  // ranges of several ranks may overlap; empty where there are more ranks than units or query heads.
  [[nodiscard]] Range held(int64_t size, int64_t tensor, int64_t rank) const;
  friend bool operator==(const TensorCut&, const TensorCut&) = default;
};

}  // namespace weft::model
