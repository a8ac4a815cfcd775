// Stage-level schedules as text: a row of comma-separated actions a role, as torch.distributed.pipelining reads and
// writes them. docs/formats/schedule-csv.md.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "schedule/schedule.h"

namespace weft::schedule {

// "2F0", "2B0", "2I0", "2W0", "1SEND_F3", "2RECV_F3", "2SEND_B3", "1RECV_B3", "1WAIT_SEND_F3", "4UNSHARD", "4RESHARD",
// "4REDUCE_GRAD,4WAIT_REDUCE_GRAD", "(0F3;3B1)OVERLAP_F_B". What torch has no word for: "2RECOMPUTE0", "REDUCE_LOSS",
// "REDUCE_NORM", "STEP", and a slice behind its action, "2F0{slice=1}". The schedule is of the stage level.
[[nodiscard]] std::string csv(const Schedule& schedule);

// Owners of stages follow from the rows, and which of them train from the backwards. `name` is what messages call the
// text. InputError gives row and column (1 is the first) of what is no action, a stage in two rows, numbers out of
// range; it names a stage that nobody computes, and refuses texts with less than half the forwards and backwards that
// their numbers of stages and micro-batches ask for, so that memory is bounded by the text's length.
[[nodiscard]] Schedule read_csv(std::string_view text, std::string_view name);
[[nodiscard]] Schedule read_csv_file(const std::filesystem::path& path);

// xxh64 of everything that matters in a schedule, for ranks to compare before the first step.
[[nodiscard]] uint64_t hash(const Schedule& schedule);

}  // namespace weft::schedule
