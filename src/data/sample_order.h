// Which sample is the n-th of a run: a pure function, so that a resume needs no state and ranks need not agree on
// anything.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "data/permutation.h"

namespace weft::data {

// A source as the order sees it.
struct OrderedSource {
  uint64_t windows = 1;  // of an epoch; at least 1
  double weight = 1;     // of the mixture, relative to the other sources'; positive and finite
};

// Where a sample stands: `index` counts the samples of the source within its epoch in the order they are due, `window`
// is what the epoch's shuffled order has there.
struct SamplePlace {
  uint64_t source = 0;
  uint64_t epoch = 0;
  uint64_t index = 0;
  uint64_t window = 0;
  friend bool operator==(const SamplePlace&, const SamplePlace&) = default;
};

// Samples have global numbers from 0 on: step s of a run with a constant global batch of G sequences takes numbers sG
// to sG + G - 1, in this order, whatever the layout. All members may be called from several threads.
//
// One source: sample n is number n mod N of epoch n div N, N being the source's windows, through the epoch's
// permutation. Several: blocks of 65,536 samples, in each of which a source has as many as its share says (largest
// remainders first, at least one). Place j of block b goes through the block's permutation; the sources' shares are
// laid out in the order of the sources, and what is number i of a source's m in the block is number bm + i of that
// source. Final (docs/data.md).
class SampleOrder {
 public:
  static constexpr uint64_t kBlock = 65536;

  // InputError: no source, a weight that is not positive, more than kBlock sources.
  SampleOrder(std::vector<OrderedSource> sources, uint64_t seed);

  [[nodiscard]] SamplePlace at(uint64_t number) const;
  // Where each source stands when the samples 0 .. samples - 1 are consumed: epoch and index follow from how many of
  // them were its own. For people and checks; nothing needs it to go on. Up to 20 ms for a mixture.
  struct Cursor {
    uint64_t epoch = 0;
    uint64_t index = 0;
    friend bool operator==(const Cursor&, const Cursor&) = default;
  };
  [[nodiscard]] std::vector<Cursor> cursors(uint64_t samples) const;
  // Samples of each source in a block; {kBlock} for one source.
  [[nodiscard]] const std::vector<uint64_t>& shares() const { return shares_; }

 private:
  // The source and the number within the source of sample `number`.
  [[nodiscard]] std::pair<uint64_t, uint64_t> draw(const Permutation& block_order, uint64_t number) const;
  [[nodiscard]] Permutation block_order(uint64_t block) const;
  [[nodiscard]] SamplePlace of_source(uint64_t source, uint64_t number) const;

  std::vector<OrderedSource> sources_;
  uint64_t seed_;
  std::vector<uint64_t> shares_, starts_;
};

// The key of what is random about one epoch of one source.
[[nodiscard]] RandomKey epoch_key(uint64_t seed, RandomPurpose purpose, uint64_t source, uint64_t epoch);

}  // namespace weft::data
