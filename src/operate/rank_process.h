// One rank's process, as its launcher holds it.
#pragma once

#include <filesystem>
#include <string>
#include <sys/types.h>
#include <vector>

namespace weft::operate {

struct RankCommand {
  std::vector<std::string> command;
  std::vector<std::string> environment;  // NAME=value, all of it
  std::filesystem::path log;             // of both outputs; empty: this process's own
  int inherited_descriptor = -1;         // kept open in the new program
};

// A process group of its own, so that a terminal's Ctrl-C reaches only the launcher, with no input. It is killed when
// its parent dies, and by the destructor if it still runs.
class RankProcess {
 public:
  // Error: the program cannot be started.
  explicit RankProcess(const RankCommand& command);
  RankProcess(RankProcess&& other) noexcept;
  RankProcess& operator=(RankProcess&&) = delete;
  ~RankProcess();

  [[nodiscard]] bool running() const { return process_ > 0; }
  // Whether it has ended since the last call; then exit_code() is known. Does not wait.
  [[nodiscard]] bool reap();
  // 128 + the signal for one that a signal ended.
  [[nodiscard]] int exit_code() const { return exit_code_; }
  // To all processes of the group; none if it has ended.
  void signal(int number) const;

 private:
  pid_t process_ = 0;
  int exit_code_ = 0;
};

}  // namespace weft::operate
