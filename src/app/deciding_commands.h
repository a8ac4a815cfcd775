// The bodies of the commands that need no tensor library. Each prints its answer on standard output, as JSON where the
// invocation asks for it, and throws as base/error.h says.
#pragma once

#include "app/commands.h"
#include "base/error.h"

namespace weft::app {

ExitCode run_explain(const Invocation& invocation);
// The exit code of the first rank that failed.
ExitCode run_launch(const Invocation& invocation);
ExitCode run_tokenize(const Invocation& invocation);
ExitCode run_data_build(const Invocation& invocation);
ExitCode run_data_samples(const Invocation& invocation);
ExitCode run_checkpoint_list(const Invocation& invocation);
// kInput if a checkpoint is damaged.
ExitCode run_checkpoint_verify(const Invocation& invocation);
ExitCode run_checkpoint_reshard(const Invocation& invocation);
ExitCode run_schedule(const Invocation& invocation);
// kInput if the schedule is not valid.
ExitCode run_schedule_check(const Invocation& invocation);

}  // namespace weft::app
