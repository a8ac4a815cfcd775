#include "schedule/generate.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

#include "base/check.h"
#include "base/error.h"
#include "schedule/generators.h"
#include "schedule/passes.h"

namespace weft::schedule {
namespace {

constexpr int64_t kMostActions = int64_t{1} << 28;
constexpr int32_t kAnyChunks = 0;

struct KindEntry {
  Kind kind;
  std::string_view name;
  int32_t chunks;
};

constexpr std::array kKinds = {
    KindEntry{Kind::kGpipe, "gpipe", 1},
    KindEntry{Kind::k1f1b, "1f1b", 1},
    KindEntry{Kind::kInterleaved, "interleaved", kAnyChunks},
    KindEntry{Kind::kBreadthFirst, "bfs", kAnyChunks},
    KindEntry{Kind::kZeroBubbleH1, "zb-h1", 1},
    KindEntry{Kind::kZeroBubbleH2, "zb-h2", 1},
    KindEntry{Kind::kZeroBubbleAuto, "zb-auto", 1},
    KindEntry{Kind::kZeroBubbleV, "zbv", 2},
    KindEntry{Kind::kVHalf, "v-half", 2},
    KindEntry{Kind::kVMin, "v-min", 2},
    KindEntry{Kind::kDualPipeV, "dualpipe-v", 2},
};

const KindEntry& entry(Kind kind) {
  const auto found = std::ranges::find(kKinds, kind, &KindEntry::kind);
  WEFT_CHECK(found != kKinds.end());
  return *found;
}

template <typename... Arguments>
[[noreturn]] void refuse(Kind kind, fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  throw InputError(
      fmt::format("schedule {}: {}", name(kind), fmt::format(format, std::forward<Arguments>(arguments)...)));
}

int32_t checked_chunks(Kind kind, int32_t roles, int32_t chunks) {
  if (roles < 1) refuse(kind, "{} roles, expected at least 1", roles);
  const int32_t own = entry(kind).chunks;
  const int32_t most = static_cast<int32_t>(std::min(kMostActions / roles, int64_t{1} << 20));
  if (chunks == 0) chunks = own == kAnyChunks ? 1 : own;
  if (own != kAnyChunks && chunks != own) refuse(kind, "{} chunks a role, expected {}", chunks, own);
  if (chunks < 1 || chunks > most) refuse(kind, "{} chunks a role, expected 1 to {}", chunks, most);
  return chunks;
}

void check_duration(Kind kind, std::string_view what, double value, bool may_be_zero) {
  if (std::isfinite(value) && (value > 0 || (may_be_zero && value == 0))) return;
  refuse(kind, "{} is {}, expected a {} number", what, value, may_be_zero ? "non-negative" : "positive");
}

void check_order_options(Kind kind, const GenerateOptions& options) {
  if (options.run != 0 && kind != Kind::kInterleaved) {
    refuse(kind, "run = {}; interleaved alone has runs", options.run);
  }
  const int32_t least_run = std::min(options.roles, options.micro_batches);
  if (options.run != 0 && options.run < least_run) {
    refuse(kind, "run = {}, expected 0 or at least {}: shorter ones hang", options.run, least_run);
  }
  if (options.rounds != 1 && kind != Kind::kBreadthFirst) {
    refuse(kind, "rounds = {}; bfs alone has rounds", options.rounds);
  }
  if (options.rounds < 1 || options.rounds > options.micro_batches) {
    refuse(kind, "{} rounds, expected 1 to the number of micro-batches, {}", options.rounds, options.micro_batches);
  }
  if (!(options.weight_share >= 0 && options.weight_share <= 1)) {
    refuse(kind, "weight_share = {}, expected 0 to 1", options.weight_share);
  }
  if (options.memory != 0 && kind != Kind::kZeroBubbleAuto) {
    refuse(kind, "memory = {}; zb-auto alone has a limit", options.memory);
  }
  if (kind == Kind::kZeroBubbleAuto && options.memory != 0 && !(options.memory >= 1)) {
    refuse(kind, "memory = {}, expected at least 1: the activations of one micro-batch", options.memory);
  }
}

// With `chunks` filled in.
GenerateOptions checked(Kind kind, GenerateOptions options) {
  options.chunks = checked_chunks(kind, options.roles, options.chunks);
  const int64_t stages = int64_t{options.roles} * options.chunks;
  const int64_t most = kMostActions / (3 * stages);
  if (options.micro_batches < 1 || options.micro_batches > most) {
    refuse(kind, "{} micro-batches on {} stages, expected 1 to {}", options.micro_batches, stages, most);
  }
  check_order_options(kind, options);
  check_duration(kind, "the time of a forward", options.times.forward, false);
  check_duration(kind, "the time of a backward for the input", options.times.input, false);
  check_duration(kind, "the time of a backward for the weights", options.times.weight, true);
  check_duration(kind, "the time of a message", options.times.message, true);
  const auto check_length = [&](std::string_view what, size_t length) {
    if (length != 0 && length != static_cast<size_t>(stages)) {
      refuse(kind, "{} of {} stages, expected {} or none", what, length, stages);
    }
  };
  check_length("times", options.stage_times.size());
  check_length("frozen", options.frozen.size());
  for (const double time : options.stage_times) check_duration(kind, "the relative time of a stage", time, false);
  return options;
}

}  // namespace

std::string_view name(Kind kind) { return entry(kind).name; }

std::optional<Kind> kind_of(std::string_view name) {
  const auto found = std::ranges::find(kKinds, name, &KindEntry::name);
  return found == kKinds.end() ? std::nullopt : std::optional(found->kind);
}

std::span<const Kind> all_kinds() {
  static constexpr auto kinds = [] {
    std::array<Kind, kKinds.size()> result{};
    std::ranges::transform(kKinds, result.begin(), &KindEntry::kind);
    return result;
  }();
  return kinds;
}

std::vector<Stage> stage_map(Kind kind, int32_t roles, int32_t chunks) {
  chunks = checked_chunks(kind, roles, chunks);
  const bool v = entry(kind).chunks == 2;
  std::vector<Stage> stages(static_cast<size_t>(roles) * static_cast<size_t>(chunks));
  for (size_t stage = 0; stage < stages.size(); ++stage) {
    const int32_t place = static_cast<int32_t>(stage % static_cast<size_t>(roles));
    stages[stage].role = v && stage >= static_cast<size_t>(roles) ? roles - 1 - place : place;
  }
  return stages;
}

Schedule generate(Kind kind, const GenerateOptions& given) {
  const GenerateOptions options = checked(kind, given);
  Schedule schedule;
  schedule.stages = stage_map(kind, options.roles, options.chunks);
  schedule.roles.resize(static_cast<size_t>(options.roles));
  schedule.micro_batches = options.micro_batches;
  switch (kind) {
    case Kind::kGpipe:
    case Kind::k1f1b:
    case Kind::kInterleaved:
    case Kind::kBreadthFirst:
      fill_looped(kind, options, schedule);
      break;
    case Kind::kZeroBubbleH1:
    case Kind::kZeroBubbleH2:
      fill_zero_bubble(kind, options, schedule);
      break;
    case Kind::kZeroBubbleAuto:
      fill_zero_bubble_auto(options, schedule);
      break;
    case Kind::kZeroBubbleV:
      fill_zero_bubble_v(options, schedule);
      break;
    case Kind::kVHalf:
    case Kind::kVMin:
      fill_v_pattern(kind, options, schedule);
      break;
    case Kind::kDualPipeV:
      fill_dual_pipe_v(options, schedule);
      break;
  }
  if (std::ranges::find(options.frozen, true) == options.frozen.end()) return schedule;
  for (size_t stage = 0; stage < options.frozen.size(); ++stage) schedule.stages[stage].trains = !options.frozen[stage];
  return prune_frozen(schedule);
}

}  // namespace weft::schedule
