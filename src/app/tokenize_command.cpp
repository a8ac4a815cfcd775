#include "data/tokenize_command.h"

#include <iostream>

#include "app/deciding_commands.h"

namespace weft::app {

ExitCode run_tokenize(const Invocation& invocation) {
  std::ios::sync_with_stdio(false);
  std::cin.tie(nullptr);
  data::tokenize_command({.tokenizer = invocation.text("--tokenizer"), .special = invocation.flag("--special")},
                         std::cin, std::cout);
  std::cout.flush();
  if (!std::cout) throw Error("standard output: cannot be written");
  return ExitCode::kDone;
}

}  // namespace weft::app
