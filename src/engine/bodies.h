// The bodies of the commands that compute. Each prints its answer on standard output, as one JSON object on one line
// where the invocation asks for it, and throws as base/error.h says.
#pragma once

#include "app/commands.h"
#include "base/error.h"

namespace weft::engine {

ExitCode run_train(const app::Invocation& invocation);
ExitCode run_generate(const app::Invocation& invocation);
ExitCode run_eval(const app::Invocation& invocation);
ExitCode run_convert(const app::Invocation& invocation);
ExitCode run_doctor(const app::Invocation& invocation);

}  // namespace weft::engine
