#include <algorithm>
#include <cstdio>

#include "app/deciding_commands.h"
#include "app/engine.h"
#include "operate/launch.h"

namespace weft::app {

ExitCode run_launch(const Invocation& invocation) {
  std::vector<std::string> words = invocation.texts("-- train RUN.toml ...");
  if (invocation.json() && std::find(words.begin(), words.end(), "--json") == words.end()) words.push_back("--json");
  const Parsed launched = parse_command_line(words);
  if (!launched.invocation) {
    std::fputs(launched.print.c_str(), stdout);
    return ExitCode::kDone;
  }
  if (launched.invocation->command().name != "train") {
    throw InputError("weft launch: only train runs on several ranks, not " + launched.invocation->command().name);
  }
  check_before_engine(*launched.invocation);
  const int ranks = static_cast<int>(invocation.integer("--ranks"));
  if (invocation.flag("--threads")) execute_engine_with_threads(words, ranks);

  operate::LaunchRequest request;
  request.command = {(program_folder() / "weft").string()};
  request.command.insert(request.command.end(), words.begin(), words.end());
  request.ranks = ranks;
  if (invocation.given("--port")) request.port = static_cast<int>(invocation.integer("--port"));
  if (invocation.given("--log-dir")) request.log_folder = invocation.text("--log-dir");
  return static_cast<ExitCode>(operate::launch(request));
}

}  // namespace weft::app
