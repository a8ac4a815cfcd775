// The way from weft to weft-engine.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "app/commands.h"

namespace weft::app {

// What can be said without a tensor: the run file is right, the folders are there. Throws InputError.
void check_before_engine(const Invocation& invocation);

// The folder of this program, in which weft-engine is too. Error, if the system does not say.
[[nodiscard]] std::filesystem::path program_folder();

// Replaces this process by the weft-engine beside this program, with the same words; the process id stays. Returns only
// by throwing Error, if there is none.
[[noreturn]] void execute_engine(const std::vector<std::string>& words);

// The same, with this many ranks as threads of the one process.
[[noreturn]] void execute_engine_with_threads(const std::vector<std::string>& words, int ranks);

}  // namespace weft::app
