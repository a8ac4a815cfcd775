#include "mesh/redistribution.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/check.h"
#include "base/error.h"
#include "mesh/shard.h"

namespace weft::mesh {
namespace {

bool is_whole(Placement placement) {
  return placement.kind == PlacementKind::kReplicate || placement.kind == PlacementKind::kInvariant;
}
bool is_cut(Placement placement) {
  return placement.kind == PlacementKind::kShard || placement.kind == PlacementKind::kRagged;
}

std::optional<StepKind> kind_of(Placement from, Placement to) {
  const bool summed = from.kind == PlacementKind::kPartial, to_sum = to.kind == PlacementKind::kPartial;
  if (is_whole(from)) return is_whole(to) ? StepKind::kRelabel : to_sum ? StepKind::kMask : StepKind::kSlice;
  if (summed && !to_sum) return is_whole(to) ? StepKind::kAllReduce : StepKind::kReduceScatter;
  if (is_cut(from) && is_whole(to)) return StepKind::kAllGather;
  if (is_cut(from) && to_sum) return StepKind::kZeroFill;
  if (from.kind == PlacementKind::kShard && to.kind == PlacementKind::kShard) return StepKind::kAllToAll;
  return std::nullopt;  // ragged to another cut goes through the whole
}

using Order = std::vector<int8_t>;

Order axes_that_cut(const Spec& spec, int8_t dim) {
  Order axes;
  for (const int8_t axis : spec.shard_order) {
    if (spec.placements[static_cast<size_t>(axis)].dim == dim) axes.push_back(axis);
  }
  return axes;
}

int64_t units_of(const Spec& spec, size_t dim) { return spec.units.empty() ? 0 : spec.units[dim]; }

// Whether these axes, the outermost that cut the dim in both specs, cut it alike.
bool cut_alike(const Spec& one, const Spec& other, size_t dim, const Order& outermost) {
  if (outermost.empty() || units_of(one, dim) == units_of(other, dim)) return true;
  const auto of_these = [&](const Spec& spec) {
    Spec alone = spec;
    alone.shard_order = outermost;
    return alone;
  };
  const Spec first = of_these(one), second = of_these(other);
  const auto number = static_cast<int64_t>(dim);
  for (int rank = 0; rank < one.mesh.ranks(); ++rank) {
    const std::vector<int> place = coordinates_of(one.mesh, rank);
    if (shard_range(first, place, number) != shard_range(second, place, number)) return false;
  }
  return true;
}

// The axes that a step over `axes` leaves alone must cut the dim first, in the same units and order, before and after:
// only then do the members of the group hold, together, what each of them shall have.
bool dim_allows(const Spec& from, const Spec& to, size_t dim, AxisSet axes) {
  Order before = axes_that_cut(from, static_cast<int8_t>(dim)), after = axes_that_cut(to, static_cast<int8_t>(dim));
  const auto changed = [&](int8_t axis) { return contains(axes, static_cast<size_t>(axis)); };
  while (!before.empty() && changed(before.back())) before.pop_back();
  while (!after.empty() && changed(after.back())) after.pop_back();
  if (before != after || std::ranges::any_of(before, changed)) return false;
  return cut_alike(from, to, dim, before);
}

bool allowed(const Spec& from, const Spec& to, AxisSet axes) {
  for (size_t dim = 0; dim < from.shape.size(); ++dim) {
    if (!dim_allows(from, to, dim, axes)) return false;
  }
  return true;
}

int64_t local_bytes(const Spec& spec) {
  int64_t count = element_count(spec.shape);
  for (size_t axis = 0; axis < spec.placements.size(); ++axis) {
    if (is_cut(spec.placements[axis])) count /= spec.mesh.axes[axis].size;
  }
  return count * element_size(spec.element_type);
}

double seconds_of(const RedistributionStep& step, const std::vector<Link>& links) {
  constexpr double kBytesPerSecondHere = 100e9, kCall = 1e-9;
  const auto bytes = static_cast<double>(std::max(local_bytes(*step.from), local_bytes(*step.to)));
  const auto ranks = static_cast<double>(size_of(step.from->mesh, step.axes));
  if (!communicates(step.kind) || ranks == 1) {
    return kCall + (step.kind == StepKind::kRelabel ? 0 : bytes / kBytesPerSecondHere);
  }
  Link link = links.empty() ? Link{} : Link{0, 1e300};
  for (size_t axis = 0; axis < links.size(); ++axis) {
    if (!contains(step.axes, axis)) continue;
    link.latency = std::max(link.latency, links[axis].latency);
    link.bytes_per_second = std::min(link.bytes_per_second, links[axis].bytes_per_second);
  }
  const double rounds = step.kind == StepKind::kAllReduce ? 2 : 1;
  return link.latency + rounds * bytes / link.bytes_per_second * (ranks - 1) / ranks;
}

// Where each changed axis is on its way.
enum class Stage : uint8_t { kFrom, kWhole, kTo };
using State = std::vector<Stage>;  // one an axis; unchanged axes are at kTo

class Planner {
 public:
  Planner(const Spec& from, const Spec& to, const std::vector<Link>& links) : from_(from), to_(to), links_(links) {
    start_.assign(from.placements.size(), Stage::kTo);
    for (size_t axis = 0; axis < start_.size(); ++axis) {
      if (changes(axis)) start_[axis] = Stage::kFrom;
    }
  }

  // Dijkstra over the states.
  std::vector<RedistributionStep> run() {
    reached_[start_] = {0, {}, {}};
    std::set<std::pair<double, State>> open = {{0, start_}};
    const State goal(start_.size(), Stage::kTo);
    while (!open.empty()) {
      const auto [seconds, state] = *open.begin();
      open.erase(open.begin());
      if (state == goal) return steps_to(goal);
      for (auto& [next, step] : steps_from(state)) {
        const double total = seconds + step.seconds;
        const auto known = reached_.find(next);
        if (known != reached_.end()) {
          if (known->second.seconds <= total) continue;
          open.erase({known->second.seconds, next});
        }
        reached_[next] = {total, state, step};
        open.emplace(total, next);
      }
    }
    WEFT_CHECK(false);  // gathering everything and slicing again is always a way
  }

 private:
  struct Reached {
    double seconds = 0;
    State before;
    RedistributionStep step;
  };

  // An axis that cuts the same dim before and after changes if it is not among the first axes there that both share.
  [[nodiscard]] bool changes(size_t axis) const {
    const Placement before = from_.placements[axis], after = to_.placements[axis];
    if (before != after) return true;
    if (before.kind == PlacementKind::kRagged) return from_.ragged_ends != to_.ragged_ends;
    if (before.kind != PlacementKind::kShard) return false;
    const Order one = axes_that_cut(from_, before.dim), other = axes_that_cut(to_, before.dim);
    const Order shared(one.begin(), std::ranges::mismatch(one, other).in1);
    if (!cut_alike(from_, to_, static_cast<size_t>(before.dim), shared)) return true;
    return std::ranges::find(shared, static_cast<int8_t>(axis)) == shared.end();
  }

  [[nodiscard]] Placement placement(size_t axis, Stage stage) const {
    if (stage == Stage::kWhole) return {PlacementKind::kReplicate, -1};
    return stage == Stage::kFrom ? from_.placements[axis] : to_.placements[axis];
  }

  // null where no such spec exists: a ragged axis beside a shard, or a dim cut in units of both ends at a time.
  [[nodiscard]] const Spec* spec_of(const State& state) const {
    Spec spec = to_;
    spec.shard_order.clear();
    spec.ragged_ends.clear();
    spec.units.assign(spec.shape.size(), 0);
    bool ragged = false;
    for (size_t axis = 0; axis < state.size(); ++axis) {
      spec.placements[axis] = placement(axis, state[axis]);
      if (spec.placements[axis].kind != PlacementKind::kRagged) continue;
      if (ragged) return nullptr;
      ragged = true;
      spec.ragged_ends = state[axis] == Stage::kFrom ? from_.ragged_ends : to_.ragged_ends;
    }
    for (size_t dim = 0; dim < spec.shape.size(); ++dim) {
      if (!order_dim(state, dim, spec)) return nullptr;
    }
    if (ragged && !spec.shard_order.empty()) return nullptr;
    return intern(std::move(spec));
  }

  // What stays, then what is still to leave, then what has come.
  bool order_dim(const State& state, size_t dim, Spec& spec) const {
    Order leaving, came;
    for (const int8_t axis : axes_that_cut(to_, static_cast<int8_t>(dim))) {
      if (start_[static_cast<size_t>(axis)] == Stage::kTo)
        spec.shard_order.push_back(axis);
      else if (state[static_cast<size_t>(axis)] == Stage::kTo)
        came.push_back(axis);
    }
    for (const int8_t axis : axes_that_cut(from_, static_cast<int8_t>(dim))) {
      if (state[static_cast<size_t>(axis)] == Stage::kFrom) leaving.push_back(axis);
    }
    if (!leaving.empty() && !came.empty() && units_of(from_, dim) != units_of(to_, dim)) return false;
    spec.units[dim] = units_of(leaving.empty() ? to_ : from_, dim);
    spec.shard_order.insert(spec.shard_order.end(), leaving.begin(), leaving.end());
    spec.shard_order.insert(spec.shard_order.end(), came.begin(), came.end());
    return true;
  }

  // One kind of step over one set of axes at a time.
  [[nodiscard]] std::vector<std::pair<State, RedistributionStep>> steps_from(const State& state) {
    const Spec* here = spec_of(state);
    std::vector<std::pair<State, RedistributionStep>> steps;
    std::map<StepKind, std::vector<std::pair<size_t, Stage>>> moves;
    for (size_t axis = 0; axis < state.size(); ++axis) {
      for (const Stage next : {Stage::kWhole, Stage::kTo}) {
        if (next <= state[axis]) continue;
        const auto kind = kind_of(placement(axis, state[axis]), placement(axis, next));
        if (kind) moves[*kind].emplace_back(axis, next);
      }
    }
    for (const auto& [kind, choices] : moves) {
      for (uint32_t chosen = 1; chosen < uint32_t{1} << choices.size(); ++chosen) {
        State next = state;
        AxisSet axes = 0;
        for (size_t i = 0; i < choices.size(); ++i) {
          if ((chosen >> i & 1U) == 0) continue;
          axes |= axis_bit(choices[i].first);
          next[choices[i].first] = choices[i].second;
        }
        const Spec* there = spec_of(next);
        if (there == nullptr || !allowed(*here, *there, axes)) continue;
        RedistributionStep step{kind, axes, here, there, 0};
        step.seconds = seconds_of(step, links_);
        steps.emplace_back(std::move(next), step);
      }
    }
    return steps;
  }

  [[nodiscard]] std::vector<RedistributionStep> steps_to(State state) const {
    std::vector<RedistributionStep> steps;
    while (state != start_) {
      const Reached& reached = reached_.at(state);
      steps.push_back(reached.step);
      state = reached.before;
    }
    std::ranges::reverse(steps);
    return steps;
  }

  const Spec& from_;
  const Spec& to_;
  const std::vector<Link>& links_;
  State start_;
  std::map<State, Reached> reached_;
};

}  // namespace

std::string_view text(StepKind kind) {
  switch (kind) {
    case StepKind::kRelabel:
      return "relabel";
    case StepKind::kSlice:
      return "slice";
    case StepKind::kZeroFill:
      return "zero-fill";
    case StepKind::kMask:
      return "mask";
    case StepKind::kReduceScatter:
      return "reduce-scatter";
    case StepKind::kAllToAll:
      return "all-to-all";
    case StepKind::kAllGather:
      return "all-gather";
    case StepKind::kAllReduce:
      return "all-reduce";
  }
  WEFT_CHECK(false);
}

std::string text(const std::vector<RedistributionStep>& steps) {
  std::vector<std::string> words;
  for (const RedistributionStep& step : steps) {
    words.push_back(fmt::format("{} over {}", text(step.kind), text(step.from->mesh, step.axes)));
  }
  return fmt::format("{}", fmt::join(words, ", "));
}

std::vector<RedistributionStep> plan_redistribution(const Spec& from, const Spec& to, const std::vector<Link>& links) {
  if (from.mesh != to.mesh || from.shape != to.shape || from.element_type != to.element_type) {
    throw Error(
        fmt::format("no redistribution of {} to {}: mesh, shape and element type stay", from.text(), to.text()));
  }
  WEFT_CHECK(links.empty() || links.size() == from.mesh.axes.size());
  return Planner(from, to, links).run();
}

}  // namespace weft::mesh
