// weft: runs the deciding commands and hands the others to weft-engine.
#include <cstdio>
#include <string>
#include <vector>

#include "app/commands.h"
#include "app/deciding_commands.h"
#include "app/engine.h"
#include "base/check.h"

namespace weft::app {
namespace {

struct Body {
  std::string_view name;
  ExitCode (*run)(const Invocation&);
};

constexpr Body kBodies[] = {
    {"launch", run_launch},
    {"explain", run_explain},
    {"tokenize", run_tokenize},
    {"data build", run_data_build},
    {"data samples", run_data_samples},
    {"checkpoint list", run_checkpoint_list},
    {"checkpoint verify", run_checkpoint_verify},
    {"checkpoint reshard", run_checkpoint_reshard},
    {"schedule", run_schedule},
    {"schedule check", run_schedule_check},
};

ExitCode run(const std::vector<std::string>& words) {
  const Parsed parsed = parse_command_line(words, colour_wanted());
  if (!parsed.invocation) {
    std::fputs(parsed.print.c_str(), stdout);
    return ExitCode::kDone;
  }
  const Invocation& invocation = *parsed.invocation;
  if (invocation.command().where == Where::kEngine) {
    check_before_engine(invocation);
    execute_engine(words);
  }
  for (const Body& body : kBodies) {
    if (body.name == invocation.command().name) return body.run(invocation);
  }
  check_failed("every deciding command has a body", __FILE__, __LINE__);
}

}  // namespace
}  // namespace weft::app

int main(int count, char** arguments) {
  try {
    return static_cast<int>(weft::app::run({arguments + 1, arguments + count}));
  } catch (const weft::Error& error) {
    std::fprintf(stderr, "weft: %s\n", error.what());
    return static_cast<int>(error.exit_code());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "weft: %s\n", error.what());
    return static_cast<int>(weft::ExitCode::kFailed);
  }
}
