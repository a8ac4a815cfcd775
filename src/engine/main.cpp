// weft-engine: the commands that compute. `weft` starts it with the words it was given itself.
#include <cstdio>
#include <string>
#include <vector>

#include "app/commands.h"
#include "base/check.h"
#include "engine/bodies.h"
#include "engine/process.h"

namespace weft::engine {
namespace {

struct Body {
  std::string_view name;
  ExitCode (*run)(const app::Invocation&);
};

constexpr Body kBodies[] = {
    {"train", run_train},     {"generate", run_generate}, {"eval", run_eval},
    {"convert", run_convert}, {"doctor", run_doctor},
};

ExitCode run(const std::vector<std::string>& words) {
  const app::Parsed parsed = app::parse_command_line(words, app::colour_wanted());
  if (!parsed.invocation) {
    std::fputs(parsed.print.c_str(), stdout);
    return ExitCode::kDone;
  }
  const std::string& name = parsed.invocation->command().name;
  for (const Body& body : kBodies) {
    if (body.name == name) return body.run(*parsed.invocation);
  }
  throw InputError("weft-engine has no command " + name + "; weft has it");
}

}  // namespace
}  // namespace weft::engine

int main(int count, char** arguments) {
  try {
    weft::engine::start_process();
    return static_cast<int>(weft::engine::run({arguments + 1, arguments + count}));
  } catch (const weft::Error& error) {
    std::fprintf(stderr, "weft: %s\n", error.what());
    return static_cast<int>(error.exit_code());
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "weft: out of memory\n");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "weft: %s\n", error.what());
  }
  return static_cast<int>(weft::ExitCode::kFailed);
}
