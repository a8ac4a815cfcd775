#include "app/engine.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <unistd.h>

#include <fmt/format.h>

#include "app/assignments.h"
#include "base/checkpoint_folder.h"
#include "base/error.h"
#include "run/load.h"

namespace weft::app {

void check_before_engine(const Invocation& invocation) {
  const std::string& command = invocation.command().name;
  if (command == "train") static_cast<void>(run::load_run(invocation.text("RUN.toml"), assignments(invocation)));
  if (command == "eval" || command == "generate") static_cast<void>(find_model_folder(invocation.text("DIR")));
  if (command == "convert") static_cast<void>(find_model_folder(invocation.text("SRC")));
}

std::filesystem::path program_folder() {
  std::error_code code;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", code);
  if (code) throw Error("/proc/self/exe: " + code.message());
  return self.parent_path();
}

void execute_engine_with_threads(const std::vector<std::string>& words, int ranks) {
  setenv("WEFT_THREAD_RANKS", std::to_string(ranks).c_str(), 1);
  setenv("OMP_NUM_THREADS", "1", 0);
  execute_engine(words);
}

void execute_engine(const std::vector<std::string>& words) {
  const std::string engine = (program_folder() / "weft-engine").string();
  std::vector<char*> arguments = {const_cast<char*>(engine.c_str())};
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  // Threads that wait for each other must sleep, not spin: on a shared or busy machine spinning costs ten times the
  // work itself. OpenMP reads this before main() of the next program; what the user has set stays.
  setenv("OMP_WAIT_POLICY", "PASSIVE", 0);
  execv(engine.c_str(), arguments.data());
  if (errno == ENOENT) {
    throw Error(
        fmt::format("{}: there is no such program: weft was built without LibTorch; ./weft at the root of the "
                    "source builds both",
                    engine));
  }
  throw Error(fmt::format("{}: {}", engine, std::strerror(errno)));
}

}  // namespace weft::app
