#include <cstdio>
#include <string>

#include "app/deciding_commands.h"
#include "app/explain.h"
#include "base/json.h"

namespace weft::app {

ExitCode run_explain(const Invocation& invocation) {
  Explanation explanation;
  explanation.run = run::load_run(invocation.text("RUN.toml"), invocation.texts("--set"));
  describe(explanation);
  const bool parameters = invocation.flag("--parameters");
  if (parameters && !explanation.description) throw InputError(explanation.unknown);
  std::string text;
  if (invocation.json()) {
    text = dump_json(explanation_json(explanation, parameters ? Table::kWith : Table::kWithout)) + "\n";
  } else {
    text = fields_text(explanation.run, colour_wanted()) + "\n";
    if (const std::string phases = phases_text(explanation.run.node); !phases.empty()) text += phases + "\n";
    if (parameters) text += parameters_text(explanation.run.node, *explanation.description) + "\n";
    text += totals_text(explanation);
  }
  std::fputs(text.c_str(), stdout);
  return ExitCode::kDone;
}

}  // namespace weft::app
