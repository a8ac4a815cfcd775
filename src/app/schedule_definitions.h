// The part of the table of commands (command_table.cpp) that is about schedules.
#pragma once

#include "app/commands.h"

namespace weft::app {

[[nodiscard]] CommandDefinition schedule();
[[nodiscard]] CommandDefinition schedule_check();

}  // namespace weft::app
