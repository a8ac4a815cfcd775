#include "data/sample_order.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include <gtest/gtest.h>

#include "base/error.h"

namespace weft::data {
namespace {

TEST(Permutation, IsABijectionForEverySizeUpToThreeHundredAndSomeLarge) {
  std::vector<uint64_t> sizes = {999, 1000, 1024, 4097, 65536, 100003};
  for (uint64_t size = 1; size <= 300; ++size) sizes.push_back(size);
  for (const uint64_t size : sizes) {
    const Permutation permutation({size, 3}, size);
    std::vector<bool> seen(size);
    for (uint64_t i = 0; i < size; ++i) {
      const uint64_t image = permutation(i);
      ASSERT_LT(image, size);
      ASSERT_FALSE(seen[image]) << size;
      seen[image] = true;
    }
  }
}

TEST(Permutation, HugeDomainsStayInside) {
  const uint64_t size = (uint64_t{1} << 62) - 7;
  const Permutation permutation({1, 2}, size);
  std::set<uint64_t> images;
  for (uint64_t i = 0; i < 1000; ++i) images.insert(permutation(size - 1 - i));
  EXPECT_EQ(images.size(), 1000U);
  EXPECT_LT(*images.rbegin(), size);
}

// Each element is as often at each place, over many keys; and neighbours do not stay neighbours.
TEST(Permutation, ShufflesEvenly) {
  constexpr uint64_t kSize = 7, kKeys = 21000;
  std::vector<std::vector<int>> counts(kSize, std::vector<int>(kSize));
  std::set<std::vector<uint64_t>> of_three;
  for (uint64_t key = 0; key < kKeys; ++key) {
    const Permutation permutation({key, 0}, kSize);
    for (uint64_t i = 0; i < kSize; ++i) ++counts[i][permutation(i)];
    const Permutation three({key, 1}, 3);
    of_three.insert({three(0), three(1), three(2)});
  }
  EXPECT_EQ(of_three.size(), 6U);
  double chi_squared = 0;
  for (const auto& row : counts) {
    for (const int count : row) chi_squared += (count - 3000.0) * (count - 3000.0) / 3000.0;
  }
  EXPECT_LT(chi_squared, 80);  // 36 degrees of freedom: one in 30,000 permutations of the keys would exceed this
  int neighbours = 0;
  const Permutation large({5, 6}, 10000);
  for (uint64_t i = 0; i + 1 < 10000; ++i) neighbours += large(i + 1) == large(i) + 1;
  EXPECT_LT(neighbours, 10);
}

// The order of every run rests on these numbers; they come from an implementation in Python made from docs/data.md
// alone.
TEST(SampleOrder, IsFinal) {
  const SampleOrder one({{1000, 1}}, 42);
  const uint64_t windows[] = {one.at(0).window, one.at(1).window, one.at(999).window, one.at(1000).window};
  EXPECT_EQ(one.at(1000).epoch, 1U);
  const SampleOrder two({{1000, 3}, {10, 1}}, 42);
  std::vector<uint64_t> sources;
  for (uint64_t n = 0; n < 12; ++n) sources.push_back(two.at(n).source);
  EXPECT_EQ(std::vector<uint64_t>(windows, windows + 4), (std::vector<uint64_t>{296, 990, 254, 672}));
  EXPECT_EQ(sources, (std::vector<uint64_t>{0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0, 1}));
  EXPECT_EQ(two.at(3), (SamplePlace{1, 98, two.at(3).index, 8}));
  EXPECT_EQ(two.at(11), (SamplePlace{1, 345, two.at(11).index, 3}));
}

TEST(SampleOrder, AnEpochHasEveryWindowOnceAndEpochsDiffer) {
  for (const uint64_t windows : {1, 2, 5, 257}) {
    const SampleOrder order({{windows, 1}}, 7);
    std::vector<std::vector<uint64_t>> epochs;
    for (uint64_t epoch = 0; epoch < 3; ++epoch) {
      std::vector<uint64_t> seen;
      for (uint64_t i = 0; i < windows; ++i) {
        const SamplePlace place = order.at(epoch * windows + i);
        EXPECT_EQ(place.epoch, epoch);
        EXPECT_EQ(place.index, i);
        seen.push_back(place.window);
      }
      epochs.push_back(seen);
      std::sort(seen.begin(), seen.end());
      for (uint64_t i = 0; i < windows; ++i) ASSERT_EQ(seen[i], i);
    }
    if (windows > 5) {
      EXPECT_NE(epochs[0], epochs[1]);
      const SampleOrder other({{windows, 1}}, 8);
      std::vector<uint64_t> first_of_other;
      for (uint64_t i = 0; i < windows; ++i) first_of_other.push_back(other.at(i).window);
      EXPECT_NE(epochs[0], first_of_other);
    }
  }
}

// A walk that counts how many samples each source has had reaches the same places as the closed form, block by block,
// and a mixture keeps its proportions within one sample a block.
TEST(SampleOrder, MixturesKeepTheirSharesAndUseEverySampleOnce) {
  const std::vector<OrderedSource> sources = {{1000, 0.41}, {37, 0.26}, {1, 0.0023}, {100000, 0.3276}, {5, 1e-9}};
  double total = 0;
  for (const auto& source : sources) total += source.weight;
  const SampleOrder order(sources, 3);
  std::vector<std::set<uint64_t>> numbers(sources.size());
  for (uint64_t block = 0; block < 2; ++block) {
    std::vector<uint64_t> counts(sources.size());
    for (uint64_t j = 0; j < SampleOrder::kBlock; ++j) {
      const SamplePlace place = order.at(block * SampleOrder::kBlock + j);
      ++counts[place.source];
      const uint64_t number = place.epoch * sources[place.source].windows + place.index;
      EXPECT_TRUE(numbers[place.source].insert(number).second);
    }
    for (size_t i = 0; i < sources.size(); ++i) {
      EXPECT_EQ(counts[i], order.shares()[i]);
      EXPECT_NEAR(static_cast<double>(counts[i]), sources[i].weight / total * SampleOrder::kBlock, 1.0);
      // No gap: the source has had its samples 0 to n - 1.
      EXPECT_EQ(*numbers[i].rbegin() + 1, numbers[i].size());
    }
  }
}

// The cursor at any number of samples is that of a walk which counts.
TEST(SampleOrder, CursorsAreThoseOfAWalk) {
  const std::vector<OrderedSource> sources = {{7, 1}, {1, 2}, {1000, 3}};
  for (const auto& chosen : {sources, {sources[0]}}) {
    const SampleOrder order(chosen, 9);
    std::vector<uint64_t> counts(chosen.size());
    for (uint64_t samples = 0; samples < SampleOrder::kBlock + 500; ++samples) {
      if (samples % 9973 == 0 || samples % SampleOrder::kBlock == 0) {
        const auto cursors = order.cursors(samples);
        for (size_t i = 0; i < counts.size(); ++i) {
          EXPECT_EQ(cursors[i].epoch * chosen[i].windows + cursors[i].index, counts[i]);
          EXPECT_LT(cursors[i].index, chosen[i].windows);
        }
      }
      ++counts[order.at(samples).source];
    }
  }
}

TEST(SampleOrder, SourcesAreMixedWithinABlock) {
  const SampleOrder order({{100, 1}, {100, 1}}, 1);
  for (uint64_t start = 0; start < 65000; start += 1000) {
    int first = 0;
    for (uint64_t n = start; n < start + 1000; ++n) first += order.at(n).source == 0;
    EXPECT_GT(first, 420);
    EXPECT_LT(first, 580);
  }
}

TEST(SampleOrder, RefusesWeightsThatAreNone) {
  for (const double weight :
       {-1.0, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    EXPECT_THROW(SampleOrder({{10, 1}, {10, weight}}, 1), InputError);
  }
  EXPECT_THROW(SampleOrder({{10, 0}, {10, 0}}, 1), InputError);
  EXPECT_THROW(SampleOrder(std::vector<OrderedSource>{}, 1), InputError);
}

TEST(SampleOrder, ASourceOfWeightZeroWaits) {
  const SampleOrder order({{10, 0}, {10, 1}, {10, 1e-9}}, 1);
  EXPECT_EQ(order.shares(), (std::vector<uint64_t>{0, SampleOrder::kBlock - 1, 1}));
}

// A walk that counts what each source has had finds the cursors; where windows change, each source goes on at its share
// of the epoch; and nothing that comes later changes what was before.
TEST(SampleOrder, SourcesGoOnWhereTheyStoodWhenAPhaseBegins) {
  const uint64_t second = SampleOrder::kBlock + 700, third = second + 1234;
  const std::vector<OrderedPhase> phases = {{0, {{1000, 3}, {501, 1}, {64, 0}}},
                                            {second, {{1000, 1}, {501, 0}, {64, 2}}},
                                            {third, {{500, 1}, {251, 1}, {32, 1}}}};
  const SampleOrder order(phases, 5), first_alone(phases[0].sources, 5);
  std::vector<uint64_t> had(3);
  size_t phase = 0;
  for (uint64_t number = 0; number < third + 5000; ++number) {
    if (number % 9973 == 0 || number == second || number == third) {
      const auto cursors = order.cursors(number);
      for (size_t i = 0; i < had.size(); ++i) {
        const uint64_t windows = phases[phase].sources[i].windows;
        EXPECT_EQ(cursors[i], (SampleOrder::Cursor{had[i] / windows, had[i] % windows})) << number << " " << i;
      }
    }
    if (phase + 1 < phases.size() && number == phases[phase + 1].first_sample) {
      for (size_t i = 0; i < had.size(); ++i) {
        const uint64_t windows = phases[phase].sources[i].windows, next = phases[phase + 1].sources[i].windows;
        const double share = static_cast<double>(had[i] % windows * next) / static_cast<double>(windows);
        had[i] = had[i] / windows * next + static_cast<uint64_t>(std::ceil(share));
      }
      ++phase;
    }
    const SamplePlace place = order.at(number);
    if (number < second) {
      ASSERT_EQ(place, first_alone.at(number)) << "later phases change nothing before them";
    }
    ASSERT_GT(phases[phase].sources[place.source].weight, 0);
    ASSERT_LT(place.window, phases[phase].sources[place.source].windows);
    ++had[place.source];
  }
  EXPECT_EQ(order.phase_of(second - 1), 0U);
  EXPECT_EQ(order.phase_of(second), 1U);
  EXPECT_EQ(order.phase_of(third + 1), 2U);
}

// Mixtures that change in the middle of blocks: once a source has had what those blocks left of its own samples, it has
// had 0 to n - 1, each once. So has a single source, whose phases are but changes of the batch.
TEST(SampleOrder, AChangedMixtureTakesEveryOwnSampleOnce) {
  const uint64_t second = 40000, third = second + 300, end = third + 4 * SampleOrder::kBlock;
  const std::vector<OrderedPhase> mixed = {{0, {{1000, 2}, {37, 2}, {500, 1}}},
                                           {second, {{1000, 1}, {37, 0}, {500, 5}}},
                                           {third, {{1000, 1}, {37, 2}, {500, 1}}}};
  const std::vector<OrderedPhase> single = {{0, {{1000, 1}}}, {second, {{1000, 2}}}, {third, {{1000, 1}}}};
  for (const auto& phases : {mixed, single}) {
    const SampleOrder order(phases, 6);
    std::vector<std::set<uint64_t>> numbers(phases[0].sources.size());
    for (uint64_t number = 0; number < end; ++number) {
      const SamplePlace place = order.at(number);
      const uint64_t own = place.epoch * phases[0].sources[place.source].windows + place.index;
      EXPECT_TRUE(numbers[place.source].insert(own).second) << number;
    }
    for (const auto& of_source : numbers) EXPECT_EQ(*of_source.rbegin() + 1, of_source.size());
  }
}

}  // namespace
}  // namespace weft::data
