#include "model/tensor_cut.h"

#include "base/check.h"

namespace weft::model {
namespace {

// Heads as elements of a dim.
Range elements(const Range& held, int64_t size, int64_t heads) {
  WEFT_CHECK(size % heads == 0);
  const int64_t each = size / heads;
  return {held.begin * each, held.end * each};
}

}  // namespace

Range held_query_heads(const Heads& heads, int64_t tensor, int64_t rank) {
  if (tensor > heads.key_value) return part(heads.query, tensor, rank);
  const Range groups = part(heads.key_value, tensor, rank);
  return {groups.begin * heads.group(), groups.end * heads.group()};
}

Range held_key_value_heads(const Heads& heads, int64_t tensor, int64_t rank) {
  const Range query = held_query_heads(heads, tensor, rank);
  const int64_t begin = query.begin / heads.group();
  return {begin, query.size() == 0 ? begin : (query.end - 1) / heads.group() + 1};
}

Range TensorCut::held(int64_t size, int64_t tensor, int64_t rank) const {
  WEFT_CHECK(tensor > 0 && rank >= 0 && rank < tensor);
  switch (kind) {
    case Kind::kWhole:
      break;
    case Kind::kUnits:
      return cut(size, weft::kUnits, tensor, rank);
    case Kind::kQueryHeads:
      return elements(held_query_heads(heads, tensor, rank), size, heads.query);
    case Kind::kKeyValueHeads:
      return elements(held_key_value_heads(heads, tensor, rank), size, heads.key_value);
  }
  return {0, size};
}

}  // namespace weft::model
