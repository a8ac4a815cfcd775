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

// Whole numbers that add up to kBlock, each within one of its share; every source of weight gets at least one.
std::vector<uint64_t> shares_of(const std::vector<OrderedSource>& sources) {
  double total = 0;
  for (const OrderedSource& source : sources) total += source.weight;
  std::vector<uint64_t> shares;
  std::vector<double> remainders;
  for (const OrderedSource& source : sources) {
    const double exact = source.weight / total * static_cast<double>(SampleOrder::kBlock);
    const double whole = source.weight > 0 ? std::max(1.0, std::floor(exact)) : 0;
    shares.push_back(static_cast<uint64_t>(whole));
    remainders.push_back(exact - whole);
  }
  std::vector<size_t> order(sources.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return remainders[a] > remainders[b]; });
  uint64_t given = std::accumulate(shares.begin(), shares.end(), uint64_t{0});
  for (size_t next = 0; given < SampleOrder::kBlock; next = (next + 1) % order.size()) {
    if (sources[order[next]].weight > 0) ++shares[order[next]], ++given;
  }
  // Sources lifted to one sample may have taken too many: the largest give them back.
  for (; given > SampleOrder::kBlock; --given) --*std::max_element(shares.begin(), shares.end());
  return shares;
}

}  // namespace

RandomKey epoch_key(uint64_t seed, RandomPurpose purpose, uint64_t source, uint64_t epoch) {
  return random_key(seed, purpose, epoch, xxh64(std::to_string(source)));
}

SampleOrder::SampleOrder(std::vector<OrderedPhase> phases, uint64_t seed) : seed_(seed) {
  WEFT_CHECK(!phases.empty() && phases.front().first_sample == 0);
  for (OrderedPhase& phase : phases) add(std::move(phase));
}

void SampleOrder::add(OrderedPhase ordered) {
  Phase phase;
  phase.first_sample = ordered.first_sample;
  phase.sources = std::move(ordered.sources);
  if (phase.sources.empty()) throw InputError("the data has no source");
  if (phase.sources.size() > kBlock)
    throw InputError(fmt::format("the data has {} sources, more than {}", phase.sources.size(), kBlock));
  double sum = 0;
  for (size_t i = 0; i < phase.sources.size(); ++i) {
    WEFT_CHECK(phase.sources[i].windows >= 1);
    const double weight = phase.sources[i].weight;
    if (!(weight >= 0) || !std::isfinite(weight)) {
      throw InputError(fmt::format("the weight of source {} is {}; weights are 0 or more", i + 1, weight));
    }
    sum += weight;
  }
  if (sum <= 0) throw InputError("the weights of the sources are all 0; nothing would be read");
  phase.shares = shares_of(phase.sources);
  phase.starts.resize(phase.shares.size());
  std::exclusive_scan(phase.shares.begin(), phase.shares.end(), phase.starts.begin(), uint64_t{0});
  phase.taken.resize(phase.sources.size());
  phase.behind = phase.taken;
  phase.left.resize(phase.sources.size());
  if (!phases_.empty()) go_on(phase);
  phases_.push_back(std::move(phase));
}

void SampleOrder::go_on(Phase& phase) const {
  const Phase& before = phases_.back();
  WEFT_CHECK(phase.first_sample > before.first_sample && phase.sources.size() == before.sources.size());
  const std::vector<uint64_t> had = taken(before, phase.first_sample);
  // Of a mixture's last block, whose own samples are not drawn in their order.
  const uint64_t within = phase.first_sample - before.first_sample, block = within / kBlock;
  const bool mixed = phase.sources.size() > 1;
  std::vector<std::vector<bool>> drawn(had.size());
  for (size_t i = 0; i < had.size(); ++i) drawn[i].resize(mixed ? before.shares[i] : 0);
  if (mixed) {
    const Permutation order = block_order(before, block);
    for (uint64_t number = block * kBlock; number < within; ++number) {
      const auto [source, own] = draw(before, order, number);
      drawn[source][own - block * before.shares[source]] = true;
    }
  }
  for (size_t i = 0; i < had.size(); ++i) {
    const uint64_t old_windows = before.sources[i].windows, windows = phase.sources[i].windows;
    if (windows != old_windows) {
      __extension__ using Wide = unsigned __int128;
      const Wide share = Wide{had[i] % old_windows} * windows;
      phase.taken[i] = had[i] / old_windows * windows + static_cast<uint64_t>((share + old_windows - 1) / old_windows);
      phase.behind[i] = phase.taken[i];
      continue;
    }
    phase.taken[i] = had[i];
    const uint64_t first = mixed ? block * before.shares[i] : within;
    for (uint64_t own = 0; own < drawn[i].size(); ++own) {
      if (!drawn[i][own]) phase.left[i].push_back(before.own_number(i, first + own));
    }
    const uint64_t end = first + drawn[i].size();
    for (uint64_t own = end; own < before.left[i].size(); ++own) phase.left[i].push_back(before.left[i][own]);
    phase.behind[i] = before.own_number(i, std::max<uint64_t>(end, before.left[i].size()));
  }
}

size_t SampleOrder::phase_of(uint64_t number) const {
  const auto behind = std::ranges::upper_bound(phases_, number, {}, &Phase::first_sample);
  return static_cast<size_t>(behind - phases_.begin()) - 1;
}

SamplePlace SampleOrder::of_source(const Phase& phase, uint64_t source, uint64_t number) const {
  const uint64_t windows = phase.sources[source].windows;
  SamplePlace place{source, number / windows, number % windows, 0};
  place.window = Permutation(epoch_key(seed_, RandomPurpose::kSampleOrder, source, place.epoch), windows)(place.index);
  return place;
}

// Blocks of later phases are shuffled by keys of their own.
Permutation SampleOrder::block_order(const Phase& phase, uint64_t block) const {
  const uint64_t path = phase.first_sample == 0 ? 0 : xxh64(std::to_string(phase.first_sample));
  return Permutation(random_key(seed_, RandomPurpose::kMixture, block, path), kBlock);
}

std::pair<uint64_t, uint64_t> SampleOrder::draw(const Phase& phase, const Permutation& block_order, uint64_t number) {
  const std::vector<uint64_t>& starts = phase.starts;
  const uint64_t drawn = block_order(number % kBlock);
  const auto source = static_cast<uint64_t>(std::upper_bound(starts.begin(), starts.end(), drawn) - starts.begin()) - 1;
  return {source, number / kBlock * phase.shares[source] + (drawn - starts[source])};
}

SamplePlace SampleOrder::at(uint64_t number) const {
  const Phase& phase = phases_[phase_of(number)];
  const uint64_t within = number - phase.first_sample;
  if (phase.sources.size() == 1) return of_source(phase, 0, phase.own_number(0, within));
  const auto [source, own_number] = draw(phase, block_order(phase, within / kBlock), within);
  return of_source(phase, source, phase.own_number(source, own_number));
}

std::vector<uint64_t> SampleOrder::taken(const Phase& phase, uint64_t samples) const {
  std::vector<uint64_t> counts = phase.taken;
  const uint64_t within = samples - phase.first_sample, blocks = within / kBlock;
  for (size_t i = 0; i < counts.size(); ++i) counts[i] += blocks * phase.shares[i];
  if (counts.size() == 1) {
    counts[0] = phase.taken[0] + within;
    return counts;
  }
  const Permutation order = block_order(phase, blocks);
  for (uint64_t number = blocks * kBlock; number < within; ++number) ++counts[draw(phase, order, number).first];
  return counts;
}

std::vector<SampleOrder::Cursor> SampleOrder::cursors(uint64_t samples) const {
  // What is consumed up to a phase's first sample was consumed in the phase before it.
  const size_t index = phase_of(samples == 0 ? 0 : samples - 1);
  const std::vector<uint64_t> counts = taken(phases_[index], samples);
  std::vector<Cursor> cursors;
  for (size_t i = 0; i < counts.size(); ++i) {
    const uint64_t windows = phases_[index].sources[i].windows;
    cursors.push_back({counts[i] / windows, counts[i] % windows});
  }
  return cursors;
}

}  // namespace weft::data
