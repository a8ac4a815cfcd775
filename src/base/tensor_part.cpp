#include "base/tensor_part.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"

namespace weft {

namespace {

// The elements of one step along each dim.
std::vector<int64_t> strides_of(const std::vector<int64_t>& shape) {
  std::vector<int64_t> strides(shape.size(), 1);
  for (size_t dim = shape.size(); dim-- > 1;) strides[dim - 1] = strides[dim] * shape[dim];
  return strides;
}

// Appends the boxes of a range of what lies from `dim` inwards of `box`, whose outer dims are one element long.
void append_boxes(const Box& box, const std::vector<int64_t>& strides, size_t dim, Range range,
                  std::vector<Box>& boxes) {
  if (range.size() == 0) return;
  if (dim == box.shape.size()) {
    boxes.push_back(box);
    return;
  }
  const int64_t row = strides[dim];
  const auto rows = [&](int64_t begin, int64_t end) {
    Box part = box;
    part.offset[dim] += begin;
    part.shape[dim] = end - begin;
    return part;
  };
  int64_t first = range.begin / row;
  const int64_t last = range.end / row;
  if (const int64_t inside = range.begin % row; inside > 0) {
    const int64_t end = std::min(row, range.end - first * row);
    append_boxes(rows(first, first + 1), strides, dim + 1, {inside, end}, boxes);
    ++first;
  }
  if (first < last) boxes.push_back(rows(first, last));
  if (first <= last && range.end % row > 0) {
    append_boxes(rows(last, last + 1), strides, dim + 1, {0, range.end % row}, boxes);
  }
}

struct Copy {
  const Box& from_box;
  const Box& to_box;
  std::vector<int64_t> from_strides, to_strides;
  size_t element;
  size_t run_dim;  // from here inwards what both share is contiguous in both

  void copy(const std::byte* from, std::byte* to, size_t dim) const {
    const int64_t from_begin = from_box.offset[dim], to_begin = to_box.offset[dim];
    const int64_t begin = std::max(from_begin, to_begin);
    const int64_t end = std::min(from_begin + from_box.shape[dim], to_begin + to_box.shape[dim]);
    const size_t from_step = static_cast<size_t>(from_strides[dim]) * element;
    const size_t to_step = static_cast<size_t>(to_strides[dim]) * element;
    from += static_cast<size_t>(begin - from_begin) * from_step;
    to += static_cast<size_t>(begin - to_begin) * to_step;
    if (dim == run_dim) {
      std::memcpy(to, from, static_cast<size_t>(end - begin) * from_step);
      return;
    }
    for (int64_t row = begin; row < end; ++row, from += from_step, to += to_step) copy(from, to, dim + 1);
  }
};

}  // namespace

int64_t Box::elements() const {
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  return count;
}

TensorPart whole_part(std::vector<int64_t> shape) {
  Box box{std::vector<int64_t>(shape.size(), 0), std::move(shape)};
  const int64_t elements = box.elements();
  return {std::move(box), {0, elements}};
}

std::vector<Box> boxes_of(const TensorPart& part) {
  WEFT_CHECK(part.box.offset.size() == part.box.shape.size());
  WEFT_CHECK(0 <= part.range.begin && part.range.begin <= part.range.end && part.range.end <= part.box.elements());
  std::vector<Box> boxes;
  append_boxes(part.box, strides_of(part.box.shape), 0, part.range, boxes);
  return boxes;
}

bool overlap(const Box& a, const Box& b) {
  for (size_t dim = 0; dim < a.shape.size(); ++dim) {
    if (std::max(a.offset[dim], b.offset[dim]) >=
        std::min(a.offset[dim] + a.shape[dim], b.offset[dim] + b.shape[dim])) {
      return false;
    }
  }
  return true;
}

void copy_shared(const Box& from_box, const std::byte* from, const Box& to_box, std::byte* to, size_t element) {
  if (!overlap(from_box, to_box)) return;
  size_t run_dim = from_box.shape.size();
  if (run_dim == 0) {
    std::memcpy(to, from, element);
    return;
  }
  // A dim that both hold alike continues the run of the dim outside of it.
  do {
    --run_dim;
  } while (run_dim > 0 && from_box.offset[run_dim] == to_box.offset[run_dim] &&
           from_box.shape[run_dim] == to_box.shape[run_dim]);
  Copy{from_box, to_box, strides_of(from_box.shape), strides_of(to_box.shape), element, run_dim}.copy(from, to, 0);
}

}  // namespace weft
