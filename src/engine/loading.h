// What the commands that use a trained model have in common.
#pragma once

#include <string_view>

#include "app/commands.h"
#include "serve/loaded_model.h"

namespace weft::engine {

// Sets the process's threads (--threads), then loads the model that the argument names in the numbers of --precision.
// Says warnings on standard error.
serve::LoadedModel load_model(const app::Invocation& invocation, std::string_view argument);

}  // namespace weft::engine
