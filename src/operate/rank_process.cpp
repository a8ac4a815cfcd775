#include "operate/rank_process.h"

#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"

namespace weft::operate {
namespace {

std::vector<char*> pointers(const std::vector<std::string>& words) {
  std::vector<char*> list;
  for (const std::string& word : words) list.push_back(const_cast<char*>(word.c_str()));
  list.push_back(nullptr);
  return list;
}

// Between fork and exec: calls only what is allowed in a signal handler. Writes errno to `report` where something
// fails.
[[noreturn]] void become(char* const* command, char* const* environment, const char* log, int inherited, pid_t parent,
                         int report) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  const int input = open("/dev/null", O_RDONLY);
  bool ready = input >= 0 && dup2(input, STDIN_FILENO) >= 0;
  if (ready && log != nullptr) {
    const int output = open(log, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    ready = output >= 0 && dup2(output, STDOUT_FILENO) >= 0 && dup2(output, STDERR_FILENO) >= 0;
  }
  if (ready && inherited >= 0) ready = fcntl(inherited, F_SETFD, 0) == 0;
  if (ready) execve(command[0], command, environment);
  const int error = errno;
  static_cast<void>(!write(report, &error, sizeof(error)));
  _exit(1);
}

}  // namespace

RankProcess::RankProcess(const RankCommand& command) {
  const std::vector<char*> words = pointers(command.command), environment = pointers(command.environment);
  const char* log = command.log.empty() ? nullptr : command.log.c_str();
  int report[2];
  if (pipe2(report, O_CLOEXEC) != 0) throw Error(fmt::format("a pipe cannot be made: {}", std::strerror(errno)));
  const pid_t parent = getpid();
  process_ = fork();
  const int fork_error = errno;
  if (process_ == 0) become(words.data(), environment.data(), log, command.inherited_descriptor, parent, report[1]);
  close(report[1]);
  int error = 0;
  const bool failed = process_ < 0 || read(report[0], &error, sizeof(error)) == sizeof(error);
  close(report[0]);
  if (!failed) {
    setpgid(process_, process_);  // also here: a signal may be sent before the child gets to it
    return;
  }
  if (process_ > 0) waitpid(process_, nullptr, 0);
  const bool forked = std::exchange(process_, 0) > 0;
  throw Error(fmt::format("{} cannot be started: {}", command.command[0], std::strerror(forked ? error : fork_error)));
}

RankProcess::RankProcess(RankProcess&& other) noexcept
    : process_(std::exchange(other.process_, 0)), exit_code_(other.exit_code_) {}

RankProcess::~RankProcess() {
  if (!running()) return;
  signal(SIGKILL);
  waitpid(process_, nullptr, 0);
}

bool RankProcess::reap() {
  int status = 0;
  if (!running() || waitpid(process_, &status, WNOHANG) != process_) return false;
  // What it started itself ends with it.
  ::kill(-process_, SIGKILL);
  process_ = 0;
  exit_code_ = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  return true;
}

void RankProcess::signal(int number) const {
  if (running()) ::kill(-process_, number);
}

}  // namespace weft::operate
