#include "data/permutation.h"

#include <cmath>

#include "base/check.h"

namespace weft::data {

namespace {

constexpr uint64_t kRounds = 8;

uint64_t square_root_rounded_up(uint64_t value) {
  auto root = static_cast<uint64_t>(std::sqrt(static_cast<double>(value)));
  // The double is off by at most one for values that a sample count can have.
  while (root > 0 && (root - 1) * (root - 1) >= value) --root;
  while (root * root < value) ++root;
  return root;
}

}  // namespace

Permutation::Permutation(RandomKey key, uint64_t size) : key_(key), size_(size) {
  WEFT_CHECK(size >= 1 && size <= uint64_t{1} << 62);
  rows_ = square_root_rounded_up(size);
  columns_ = (size + rows_ - 1) / rows_;
}

uint64_t Permutation::operator()(uint64_t index) const {
  WEFT_CHECK(index < size_);
  do {
    uint64_t row = index / columns_, column = index % columns_;
    for (uint64_t round = 0; round < kRounds; ++round) {
      const bool moves_row = round % 2 == 0;
      const PhiloxBlock word = random_block(key_, (moves_row ? column : row) * kRounds + round);
      const uint64_t random = word[0] | uint64_t{word[1]} << 32;
      if (moves_row) {
        row = (row + random % rows_) % rows_;
      } else {
        column = (column + random % columns_) % columns_;
      }
    }
    index = row * columns_ + column;
  } while (index >= size_);
  return index;
}

}  // namespace weft::data
