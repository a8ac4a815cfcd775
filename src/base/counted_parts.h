// For tests: the elements of a tensor's part counted one by one, with nothing of what computes with boxes.
#pragma once

#include <cstdint>
#include <vector>

#include "base/philox.h"
#include "base/tensor_part.h"

namespace weft {

// The places in the tensor of a part's elements, in their order.
inline std::vector<int64_t> places_of(const TensorPart& part, const std::vector<int64_t>& shape) {
  std::vector<int64_t> places;
  for (int64_t element = part.range.begin; element < part.range.end; ++element) {
    int64_t rest = element, place = 0, stride = 1;
    for (size_t dim = shape.size(); dim-- > 0;) {
      place += (part.box.offset[dim] + rest % part.box.shape[dim]) * stride;
      rest /= part.box.shape[dim];
      stride *= shape[dim];
    }
    places.push_back(place);
  }
  return places;
}

class RandomParts {
 public:
  explicit RandomParts(uint64_t seed) : key_{seed, 0} {}

  int64_t number(int64_t least, int64_t most) {
    return least + static_cast<int64_t>(random_word(key_, drawn_++)) % (most - least + 1);
  }

  std::vector<int64_t> shape() {
    std::vector<int64_t> result(static_cast<size_t>(number(0, 4)));
    for (int64_t& size : result) size = number(1, 5);
    return result;
  }

  Box box(const std::vector<int64_t>& shape) {
    Box result;
    for (const int64_t size : shape) {
      result.shape.push_back(number(1, size));
      result.offset.push_back(number(0, size - result.shape.back()));
    }
    return result;
  }

  // What each of `ranks` holds of a tensor: slices along one dim, each divided anywhere into shards, some of them
  // empty.
  std::vector<TensorPart> layout(const std::vector<int64_t>& shape, int64_t ranks) {
    int64_t slices = 1;
    if (!shape.empty()) {
      do {
        slices = number(1, ranks);
      } while (ranks % slices != 0);
    }
    const size_t cut_dim = shape.empty() ? 0 : static_cast<size_t>(number(0, static_cast<int64_t>(shape.size()) - 1));
    std::vector<TensorPart> parts;
    for (int64_t slice = 0; slice < slices; ++slice) {
      TensorPart held = whole_part(shape);
      if (!shape.empty()) {
        const Range rows = part(shape[cut_dim], slices, slice);
        held.box.offset[cut_dim] = rows.begin;
        held.box.shape[cut_dim] = rows.size();
      }
      const int64_t elements = held.box.elements();
      int64_t begin = 0;
      for (int64_t shard = 0; shard < ranks / slices; ++shard) {
        const int64_t end = shard + 1 == ranks / slices ? elements : number(begin, elements);
        held.range = {begin, end};
        parts.push_back(held);
        begin = end;
      }
    }
    return parts;
  }

 private:
  RandomKey key_;
  uint64_t drawn_ = 0;
};

}  // namespace weft
