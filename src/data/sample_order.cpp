#include "data/sample_order.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "base/check.h"
#include "base/error.h"
#include "base/hash.h"

namespace weft::data {

namespace {

// Whole numbers that add up to kBlock, each within one of its share; every source gets at least one.
std::vector<uint64_t> shares_of(const std::vector<OrderedSource>& sources) {
  double total = 0;
  for (const OrderedSource& source : sources) total += source.weight;
  std::vector<uint64_t> shares;
  std::vector<double> remainders;
  for (const OrderedSource& source : sources) {
    const double exact = source.weight / total * static_cast<double>(SampleOrder::kBlock);
    const double whole = std::max(1.0, std::floor(exact));
    shares.push_back(static_cast<uint64_t>(whole));
    remainders.push_back(exact - whole);
  }
  std::vector<size_t> order(sources.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return remainders[a] > remainders[b]; });
  uint64_t given = std::accumulate(shares.begin(), shares.end(), uint64_t{0});
  for (size_t next = 0; given < SampleOrder::kBlock; next = (next + 1) % order.size(), ++given) ++shares[order[next]];
  // Sources lifted to one sample may have taken too many: the largest give them back.
  for (; given > SampleOrder::kBlock; --given) --*std::max_element(shares.begin(), shares.end());
  return shares;
}

}  // namespace

RandomKey epoch_key(uint64_t seed, RandomPurpose purpose, uint64_t source, uint64_t epoch) {
  return random_key(seed, purpose, epoch, xxh64(std::to_string(source)));
}

SampleOrder::SampleOrder(std::vector<OrderedSource> sources, uint64_t seed)
    : sources_(std::move(sources)), seed_(seed) {
  if (sources_.empty()) throw InputError("the data has no source");
  if (sources_.size() > kBlock)
    throw InputError(fmt::format("the data has {} sources, more than {}", sources_.size(), kBlock));
  for (size_t i = 0; i < sources_.size(); ++i) {
    WEFT_CHECK(sources_[i].windows >= 1);
    const double weight = sources_[i].weight;
    if (!(weight > 0) || !std::isfinite(weight)) {
      throw InputError(fmt::format("the weight of source {} is {}; weights are positive numbers", i + 1, weight));
    }
  }
  shares_ = shares_of(sources_);
  starts_.resize(shares_.size());
  std::exclusive_scan(shares_.begin(), shares_.end(), starts_.begin(), uint64_t{0});
}

SamplePlace SampleOrder::of_source(uint64_t source, uint64_t number) const {
  const uint64_t windows = sources_[source].windows;
  SamplePlace place{source, number / windows, number % windows, 0};
  place.window = Permutation(epoch_key(seed_, RandomPurpose::kSampleOrder, source, place.epoch), windows)(place.index);
  return place;
}

Permutation SampleOrder::block_order(uint64_t block) const {
  return Permutation(random_key(seed_, RandomPurpose::kMixture, block, 0), kBlock);
}

std::pair<uint64_t, uint64_t> SampleOrder::draw(const Permutation& block_order, uint64_t number) const {
  const uint64_t drawn = block_order(number % kBlock);
  const auto source =
      static_cast<uint64_t>(std::upper_bound(starts_.begin(), starts_.end(), drawn) - starts_.begin()) - 1;
  return {source, number / kBlock * shares_[source] + (drawn - starts_[source])};
}

SamplePlace SampleOrder::at(uint64_t number) const {
  if (sources_.size() == 1) return of_source(0, number);
  const auto [source, own_number] = draw(block_order(number / kBlock), number);
  return of_source(source, own_number);
}

std::vector<SampleOrder::Cursor> SampleOrder::cursors(uint64_t samples) const {
  std::vector<uint64_t> counts;
  const uint64_t blocks = samples / kBlock;
  for (const uint64_t share : shares_) counts.push_back(blocks * share);
  if (sources_.size() == 1) {
    counts[0] = samples;
  } else {
    const Permutation order = block_order(blocks);
    for (uint64_t number = blocks * kBlock; number < samples; ++number) ++counts[draw(order, number).first];
  }
  std::vector<Cursor> cursors;
  for (size_t i = 0; i < counts.size(); ++i)
    cursors.push_back({counts[i] / sources_[i].windows, counts[i] % sources_[i].windows});
  return cursors;
}

}  // namespace weft::data
