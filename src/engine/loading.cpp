#include "engine/loading.h"

#include <cstdio>

#include <fmt/format.h>

#include "engine/process.h"

namespace weft::engine {

serve::LoadedModel load_model(const app::Invocation& invocation, std::string_view argument) {
  set_threads(invocation.given("--threads") ? static_cast<int>(invocation.integer("--threads")) : 0);
  const auto type = invocation.text("--precision") == "bf16" ? at::kBFloat16 : at::kFloat;
  serve::LoadedModel model = serve::load_model(invocation.text(argument), type);
  for (const std::string& warning : model.source.warnings) fmt::print(stderr, "weft: warning: {}\n", warning);
  return model;
}

}  // namespace weft::engine
