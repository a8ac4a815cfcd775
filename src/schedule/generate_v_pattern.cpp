// v-half and v-min: two chunks a role on a V, and one pattern that repeats for each micro-batch, so that a role holds
// an activation no longer than the pattern asks for (Pipeline Parallelism with Controllable Memory, arXiv 2405.15362).
//
// Time counts in slots, six a micro-batch: forward, backward for the input and for the weights, of two chunks. The
// forward of chunk 0 moves a role further every a slots, that of chunk 1 comes back every b, its backward goes down
// every c, that of chunk 0 up every d. Role i then holds micro-batches for (P - 1)(a + b + c + d) + i (b + c - a - d)
// slots of both chunks together: 2 (P - 1) s with a + d = b + c = s, which is (P - 1) s / 3 chunks at any time. s = 2
// is the least there is: a third of the P micro-batches of 1F1B (v-min); s = 3 is half of them (v-half); s = 6 is zbv.
// Between the four lie as many slots as it takes for no role to have two of them in one slot modulo six. The weight
// gradients go where the role waits.
#include <algorithm>
#include <array>
#include <utility>

#include "base/check.h"
#include "schedule/fill_weights.h"
#include "schedule/generators.h"

namespace weft::schedule {
namespace {

constexpr int64_t kPeriod = 6;
constexpr int64_t kMostActions = 20'000'000;  // to simulate: less than a second

struct Pattern {
  // Slots from one role to the next: forward of chunks 0 and 1, backward of chunks 1 and 0.
  std::array<int64_t, 4> steps;
  // Slots from the end of one way to the begin of the next.
  std::array<int64_t, 3> turns;
};

// The slots of micro-batch 0 at a role, in the order of Pattern::steps.
std::array<int64_t, 4> slots(const Pattern& pattern, int64_t role, int64_t roles) {
  const auto& [a, b, c, d] = pattern.steps;
  const int64_t down = role, up = roles - 1 - role;
  const int64_t second = (roles - 1) * a + pattern.turns[0];
  const int64_t third = second + (roles - 1) * b + pattern.turns[1];
  const int64_t fourth = third + (roles - 1) * c + pattern.turns[2];
  return {down * a, second + up * b, third + down * c, fourth + up * d};
}

bool repeats(const Pattern& pattern, int64_t roles) {
  for (int64_t role = 0; role < std::min(roles, kPeriod); ++role) {  // the same again after a period of roles
    std::array<bool, kPeriod> taken{};
    for (const int64_t slot : slots(pattern, role, roles)) {
      if (std::exchange(taken[static_cast<size_t>(slot % kPeriod)], true)) return false;
    }
  }
  return true;
}

std::vector<RoleOrder> orders_of(const Pattern& pattern, int32_t roles, int32_t micro_batches) {
  std::vector<RoleOrder> orders(static_cast<size_t>(roles));
  for (int32_t role = 0; role < roles; ++role) {
    const std::array<int64_t, 4> first = slots(pattern, role, roles);
    const std::array<int32_t, 4> stages = {role, 2 * roles - 1 - role, 2 * roles - 1 - role, role};
    std::array<int32_t, 4> next{};
    std::vector<Computation>& computations = orders[static_cast<size_t>(role)].computations;
    computations.reserve(static_cast<size_t>(micro_batches) * 4);
    while (computations.size() < static_cast<size_t>(micro_batches) * 4) {
      size_t earliest = 4;
      for (size_t way = 0; way < 4; ++way) {
        if (next[way] == micro_batches) continue;
        const auto slot = [&](size_t which) { return first[which] + kPeriod * next[which]; };
        if (earliest == 4 || slot(way) < slot(earliest)) earliest = way;
      }
      computations.push_back({stages[earliest], next[earliest]++, earliest < 2});
    }
  }
  return orders;
}

std::vector<Pattern> patterns(Kind kind, int32_t roles) {
  const int64_t sum = kind == Kind::kVMin ? 2 : 3;
  std::vector<Pattern> result;
  for (int64_t a = 1; a < sum; ++a) {
    for (int64_t b = 1; b < sum; ++b) {
      for (int64_t turns = 0; turns < kPeriod * kPeriod * kPeriod; ++turns) {
        const Pattern pattern{{a, b, sum - b, sum - a},
                              {1 + turns % kPeriod, 1 + turns / kPeriod % kPeriod, 1 + turns / kPeriod / kPeriod}};
        if (repeats(pattern, roles)) result.push_back(pattern);
      }
    }
  }
  std::ranges::stable_sort(
      result, {}, [](const Pattern& pattern) { return pattern.turns[0] + pattern.turns[1] + pattern.turns[2]; });
  return result;
}

// The orders whose step is shortest, or none where the memory has no room for any.
std::vector<RoleOrder> shortest(Kind kind, const GenerateOptions& options, WeightFiller& filler) {
  int64_t affordable = 1 + kMostActions / (6 * int64_t{options.roles} * options.micro_batches);
  std::vector<RoleOrder> best;
  Filled least;
  for (const Pattern& pattern : patterns(kind, options.roles)) {
    if (affordable-- == 0) break;
    std::vector<RoleOrder> orders = orders_of(pattern, options.roles, options.micro_batches);
    const Filled filled = filler.fill(orders);
    if (!(filled.makespan < least.makespan * (1 - 1e-12))) continue;
    least = filled;
    best = std::move(orders);
  }
  return best;
}

}  // namespace

void fill_v_pattern(Kind kind, const GenerateOptions& options, Schedule& schedule) {
  const Durations times = durations_of(options, schedule.stages.size());
  const double chunks_held = (kind == Kind::kVMin ? 2.0 / 3 : 1.0) * options.roles;
  // What the turns add to the pattern's own: two chunks, one micro-batch; more only if no pattern gets by with that.
  for (double more = 2; more <= 2.0 * options.roles + 2; ++more) {
    WeightFiller filler(schedule.stages, options.micro_batches, times, chunks_held + more, options.weight_share);
    const std::vector<RoleOrder> orders = shortest(kind, options, filler);
    if (orders.empty()) continue;
    (void)filler.fill(orders, &schedule);
    return;
  }
  WEFT_CHECK(false);  // with a place for all that the V holds at once there is no bound
}

}  // namespace weft::schedule
