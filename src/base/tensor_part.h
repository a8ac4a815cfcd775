// Parts of a tensor: boxes, and what a rank holds of one. Pure arithmetic on shapes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/units.h"

namespace weft {

// A box of a tensor: one number a dim; none for a scalar.
struct Box {
  std::vector<int64_t> offset, shape;
  [[nodiscard]] int64_t elements() const;
  friend bool operator==(const Box&, const Box&) = default;
};

// What a rank holds of a tensor: the elements `range`, counted row-major, of a box of it. The box is its slice under
// tensor parallelism, the range its shard of that slice.
struct TensorPart {
  Box box;
  Range range;
  [[nodiscard]] int64_t elements() const { return range.size(); }
};

// All of a tensor.
[[nodiscard]] TensorPart whole_part(std::vector<int64_t> shape);

// The boxes that a part consists of, in the order of its elements, none of them empty: at most 2 n - 1 for n dims (part
// of a row, whole rows, part of a row). Each is contiguous in the part. WEFT_CHECK: the range lies in its box.
[[nodiscard]] std::vector<Box> boxes_of(const TensorPart& part);

// Whether two boxes of a tensor share an element.
[[nodiscard]] bool overlap(const Box& a, const Box& b);

// Copies the elements that both boxes share. `from` and `to` are the boxes' own elements, row-major without gaps, of
// `element` bytes each.
void copy_shared(const Box& from_box, const std::byte* from, const Box& to_box, std::byte* to, size_t element);

}  // namespace weft
