// A shuffled order that needs no memory: a keyed bijection of {0, ..., size - 1}, evaluated at single places.
#pragma once

#include <cstdint>

#include "base/philox.h"

namespace weft::data {

// A Feistel network over a grid of rows x columns >= size (rows = ceil(sqrt(size)), columns = ceil(size / rows)): eight
// rounds add, in turn, a random function of the column to the row and of the row to the column, modulo the grid's edge;
// what lands outside of the size walks on. The random function of round r at x is the first two words of block 8 x + r
// of the key's stream (docs/random-numbers.md), as one 64-bit number, modulo the edge. Final: the order of training
// samples rests on it (docs/data.md).
class Permutation {
 public:
  // size >= 1.
  Permutation(RandomKey key, uint64_t size);

  // Where `index` < size goes.
  [[nodiscard]] uint64_t operator()(uint64_t index) const;
  [[nodiscard]] uint64_t size() const { return size_; }

 private:
  RandomKey key_;
  uint64_t size_, rows_, columns_;
};

}  // namespace weft::data
