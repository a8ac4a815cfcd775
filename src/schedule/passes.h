// Passes: pure functions from a stage-level schedule to a stage-level schedule. Each keeps what validate_stages()
// (validate_stages.h) accepts valid.
#pragma once

#include <cstdint>

#include "schedule/generate.h"
#include "schedule/schedule.h"

namespace weft::schedule {

// Every Backward as BackwardInput and, right behind it, BackwardWeight; and back, where the two stand together.
[[nodiscard]] Schedule split_backward(const Schedule& schedule);
[[nodiscard]] Schedule merge_backward(const Schedule& schedule);

// Without the backwards of stages that do not train, as far as no stage before them needs them.
[[nodiscard]] Schedule prune_frozen(const Schedule& schedule);

// The forwards alone: an evaluation.
[[nodiscard]] Schedule forward_only(const Schedule& schedule);

// Where messages stand. Every policy gives an order that cannot hang, even where a Send ends only when its Receive was
// posted.
enum class MessagePlace : uint8_t {
  kSender,  // the Receive is posted when the Send begins: the sender decides
  kTime,    // at the place in the receiver's list that the simulated end of the Send falls into
  kLate,    // right in front of its reader, as far as that cannot hang
};
// Adds a Send and a Receive wherever a value or gradient crosses from one role to another. Neighbouring stages of one
// role need none. InputError: there are messages already, or the schedule hangs.
[[nodiscard]] Schedule place_messages(const Schedule& schedule, MessagePlace place, const Times& times);

// Adds Unshard, Reshard and ReduceGradient so that at most `whole` stages of a role are whole at a time: a stage is
// gathered as early as a place is free, and its gradients are reduced when its place is given away or after their last
// use: whole are the `whole` different stages that the role computes next. `gather_parameters` false: parameters stay
// whole, only gradients are reduced so (ZeRO 2). InputError: the list has such actions already, or a pair of two stages
// where one may be whole.
[[nodiscard]] Schedule place_shards(const Schedule& schedule, int32_t whole, bool gather_parameters = true);

// A Recompute in front of every Backward or BackwardInput of these stages, which keep only their input from Forward.
[[nodiscard]] Schedule recompute(const Schedule& schedule, const std::vector<bool>& stages);

// Interleaved schedules: one hop of warm-up a role instead of two. Forwards of later micro-batches start as late as
// they can without a longer step; no slack for messages is left. The schedule itself where a step of unit times (a
// backward of two) would become longer. InputError where there are other actions than Forward and Backward.
[[nodiscard]] Schedule defer_forwards(const Schedule& schedule);

// A role begins no Send before all but the last `messages - 1` of those before it have ended: explicit waits
// (Part::kWait) for them, and for the last ones at the end of the list. InputError where that hangs, as it may with
// messages that kLate placed.
[[nodiscard]] Schedule limit_run_ahead(const Schedule& schedule, int32_t messages);

// Which segments of the model each stage holds: cut only in front of a layer, so that one value crosses; embedding with
// the first stage, head and loss with the last; the largest sum of FLOPs of a role, of sequences of `length` tokens, as
// small as possible. That is exact where a role has one stage or all layers cost the same, otherwise what moving single
// layers reaches. InputError where there are more stages than layers.
[[nodiscard]] Schedule assign_segments(Schedule schedule, const model::ModelDescription& model, int64_t length = 2048);

}  // namespace weft::schedule
