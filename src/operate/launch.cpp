#include "operate/launch.h"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <unistd.h>

#include <fmt/format.h>

#include "base/error.h"
#include "operate/rank_process.h"
#include "operate/store_socket.h"

namespace weft::operate {
namespace {

using Clock = std::chrono::steady_clock;

// Signals come through sigtimedwait() as long as this is there.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigemptyset(&waited_);
    for (const int number : {SIGINT, SIGTERM, SIGCHLD}) sigaddset(&waited_, number);
    pthread_sigmask(SIG_BLOCK, &waited_, &before_);
  }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

  // The next signal, or 0 at the deadline.
  [[nodiscard]] int wait(std::optional<Clock::time_point> deadline) const {
    if (!deadline) return std::max(0, sigwaitinfo(&waited_, nullptr));
    const auto left = std::max(std::chrono::nanoseconds(0), std::chrono::nanoseconds(*deadline - Clock::now()));
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(left);
    const timespec time{seconds.count(), (left - seconds).count()};
    return std::max(0, sigtimedwait(&waited_, nullptr, &time));
  }

 private:
  sigset_t waited_{}, before_{};
};

// The folder of the logs. One that nobody asked for is removed unless it is to be kept.
class Logs {
 public:
  explicit Logs(const std::string& wanted) : folder_(wanted), own_(wanted.empty()) {
    std::error_code code;
    if (own_) {
      std::string name = (std::filesystem::temp_directory_path() / "weft-launch-XXXXXX").string();
      if (mkdtemp(name.data()) == nullptr) throw Error(fmt::format("{}: {}", name, std::strerror(errno)));
      folder_ = name;
    } else if (!std::filesystem::create_directories(folder_, code) && code) {
      throw InputError(fmt::format("the log folder {} cannot be made: {}", folder_.string(), code.message()));
    }
  }
  Logs(const Logs&) = delete;
  Logs& operator=(const Logs&) = delete;
  ~Logs() {
    std::error_code code;
    if (own_ && !keep_) std::filesystem::remove_all(folder_, code);
  }

  void keep() { keep_ = true; }
  [[nodiscard]] std::filesystem::path of(int rank) const { return folder_ / fmt::format("rank-{}.log", rank); }

 private:
  std::filesystem::path folder_;
  bool own_, keep_ = false;
};

std::string last_lines(const std::filesystem::path& path) {
  constexpr std::streamoff kMost = 4096;
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  const std::streamoff size = file.tellg();
  if (size <= 0) return "";
  file.seekg(std::max<std::streamoff>(0, size - kMost));
  std::string text(static_cast<size_t>(std::min(size, kMost)), '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (text.back() != '\n') text += '\n';
  return text;
}

std::vector<std::string> environment_of(int rank, const LaunchRequest& request, const StoreSocket& socket) {
  std::vector<std::string> all;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    if (!std::string_view(*variable).starts_with("WEFT_THREAD_RANKS=")) all.emplace_back(*variable);
  }
  const auto set = [&all](std::string_view name, const std::string& value) {
    std::erase_if(all, [&](const std::string& each) { return each.starts_with(fmt::format("{}=", name)); });
    all.push_back(fmt::format("{}={}", name, value));
  };
  set("WEFT_RANK", std::to_string(rank));
  set("WEFT_RANKS", std::to_string(request.ranks));
  set("WEFT_LOCAL_RANK", std::to_string(rank));
  set("WEFT_ADDRESS", "127.0.0.1");
  set("WEFT_PORT", std::to_string(socket.port()));
  if (rank == 0) set("WEFT_STORE_SOCKET", std::to_string(socket.descriptor()));
  if (std::getenv("OMP_NUM_THREADS") == nullptr) set("OMP_NUM_THREADS", "1");
  return all;
}

class Launch {
 public:
  explicit Launch(const LaunchRequest& request) : request_(request), logs_(request.log_folder) {
    StoreSocket socket(request.port);
    for (int rank = 0; rank < request.ranks; ++rank) {
      ranks_.emplace_back(RankCommand{request.command, environment_of(rank, request, socket),
                                      rank == 0 ? std::filesystem::path() : logs_.of(rank),
                                      rank == 0 ? socket.descriptor() : -1});
    }
  }

  int run() {
    while (std::any_of(ranks_.begin(), ranks_.end(), [](const RankProcess& rank) { return rank.running(); })) {
      const int number = signals_.wait(deadline_);
      if (number == SIGINT || number == SIGTERM) {
        stopping_ = true;
        signal_all(number);
      }
      for (size_t rank = 0; rank < ranks_.size(); ++rank) {
        if (ranks_[rank].reap()) ended(static_cast<int>(rank), ranks_[rank].exit_code());
      }
      if (deadline_ && Clock::now() >= *deadline_) insist();
    }
    return exit_code_;
  }

 private:
  void ended(int rank, int code) {
    if (code == 0 || exit_code_ != 0) return;
    exit_code_ = code;
    if (stopping_ && code == static_cast<int>(ExitCode::kInterrupted)) return;
    deadline_ = Clock::now() + request_.grace;
    const std::string how =
        code > 128 ? fmt::format("was ended by signal {}", code - 128) : fmt::format("ended with exit code {}", code);
    fmt::print(stderr, "weft: rank {} {}\n", rank, how);
    if (rank == 0) return;
    logs_.keep();
    fmt::print(stderr, "{}weft: the whole log is {}\n", last_lines(logs_.of(rank)), logs_.of(rank).string());
  }

  void insist() {
    signal_all(told_ ? SIGKILL : SIGTERM);
    told_ = true;
    deadline_ = Clock::now() + request_.grace;
  }

  void signal_all(int number) {
    for (const RankProcess& rank : ranks_) rank.signal(number);
  }

  const LaunchRequest& request_;
  const SignalsBlocked signals_;
  Logs logs_;
  std::vector<RankProcess> ranks_;
  std::optional<Clock::time_point> deadline_;  // when those that still run are told, or made, to end
  bool stopping_ = false, told_ = false;
  int exit_code_ = 0;
};

}  // namespace

int launch(const LaunchRequest& request) { return Launch(request).run(); }

}  // namespace weft::operate
