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
  double weight = 1;     // of the mixture, relative to the other sources'; finite, 0: none of it
};

// The sources from a sample on: a new mixture, or windows of another length. Every phase has the same sources in the
// same order.
struct OrderedPhase {
  uint64_t first_sample = 0;
  std::vector<OrderedSource> sources;
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
//
// A later phase has blocks of its own from its first sample on, and each source goes on where it stood. Where its
// windows stay as they are, it first has what the last block left of its own samples, in order, and then goes on behind
// that block: none is taken twice, none is lost. Where they do not, it goes on at the same share of its epoch, rounded
// up to a window.
class SampleOrder {
 public:
  static constexpr uint64_t kBlock = 65536;

  // InputError: no source, a weight that is negative or not finite, weights that add up to 0, more than kBlock sources.
  SampleOrder(std::vector<OrderedSource> sources, uint64_t seed)
      : SampleOrder(std::vector<OrderedPhase>{{0, std::move(sources)}}, seed) {}
  // Phases by their first samples, the first at 0.
  SampleOrder(std::vector<OrderedPhase> phases, uint64_t seed);

  [[nodiscard]] SamplePlace at(uint64_t number) const;
  // Where each source stands when the samples 0 .. samples - 1 are consumed: epoch and index follow from how many of
  // them were its own. For people and checks; nothing needs it to go on. Up to 20 ms for a mixture.
  struct Cursor {
    uint64_t epoch = 0;
    uint64_t index = 0;
    friend bool operator==(const Cursor&, const Cursor&) = default;
  };
  [[nodiscard]] std::vector<Cursor> cursors(uint64_t samples) const;
  // Samples of each source in a block of the first phase; {kBlock} for one source.
  [[nodiscard]] const std::vector<uint64_t>& shares() const { return phases_.front().shares; }
  // Which phase a sample is of, from 0.
  [[nodiscard]] size_t phase_of(uint64_t number) const;

 private:
  struct Phase {
    uint64_t first_sample = 0;
    std::vector<OrderedSource> sources;
    std::vector<uint64_t> shares, starts;
    // Of each source when the phase begins: how many own samples it has had, in windows of this phase; own samples that
    // it has next, and the one behind them.
    std::vector<uint64_t> taken;
    std::vector<std::vector<uint64_t>> left;
    std::vector<uint64_t> behind;
    [[nodiscard]] uint64_t own_number(size_t source, uint64_t drawn) const {
      return drawn < left[source].size() ? left[source][drawn] : behind[source] + (drawn - left[source].size());
    }
  };
  void add(OrderedPhase ordered);
  void go_on(Phase& phase) const;
  // Own samples that each source has had when the samples 0 .. samples - 1 are consumed, the last of them of this
  // phase.
  [[nodiscard]] std::vector<uint64_t> taken(const Phase& phase, uint64_t samples) const;
  // The source and the number within the phase's own samples of it, of sample `number` of the phase.
  [[nodiscard]] static std::pair<uint64_t, uint64_t> draw(const Phase& phase, const Permutation& block_order,
                                                          uint64_t number);
  [[nodiscard]] Permutation block_order(const Phase& phase, uint64_t block) const;
  [[nodiscard]] SamplePlace of_source(const Phase& phase, uint64_t source, uint64_t number) const;

  std::vector<Phase> phases_;
  uint64_t seed_;
};

// The key of what is random about one epoch of one source.
[[nodiscard]] RandomKey epoch_key(uint64_t seed, RandomPurpose purpose, uint64_t source, uint64_t epoch);

}  // namespace weft::data
