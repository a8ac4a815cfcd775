#include "operate/rank_environment.h"

#include <charconv>
#include <optional>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "base/error.h"
#include "base/hash.h"

namespace weft::operate {
namespace {

using Variable = std::function<const char*(const char*)>;

constexpr int kGreatestPort = 65535;

// The names under which a launcher says who a rank is.
struct Names {
  std::string_view launcher;
  const char* rank;
  const char* size;
  const char* local_rank;
};
constexpr Names kWeft = {"weft launch", "WEFT_RANK", "WEFT_RANKS", "WEFT_LOCAL_RANK"};
constexpr Names kTorchrun = {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK"};
constexpr Names kSlurm = {"srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID"};
constexpr Names kOpenMpi = {"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"};
constexpr Names kMpich = {"mpirun", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"};

std::optional<int> number(const Variable& variable, const char* name, int least, int greatest) {
  const char* text = variable(name);
  if (text == nullptr) return std::nullopt;
  int value = 0;
  const std::string_view view = text;
  const auto [end, error] = std::from_chars(view.data(), view.data() + view.size(), value);
  if (error != std::errc() || end != view.data() + view.size() || value < least || value > greatest) {
    throw InputError(fmt::format("the environment's {}={} is not a number from {} to {}", name, view, least, greatest));
  }
  return value;
}

// What one launcher says, if it was there.
std::optional<RankEnvironment> ranks_of(const Variable& variable, const Names& names) {
  constexpr int kMost = 1 << 24;
  const auto rank = number(variable, names.rank, 0, kMost);
  const auto size = number(variable, names.size, 1, kMost);
  if (!rank && !size) return std::nullopt;
  if (!rank || !size) {
    throw InputError(fmt::format("the environment has {} but not {}: a process that {} started has both",
                                 rank ? names.rank : names.size, rank ? names.size : names.rank, names.launcher));
  }
  if (*rank >= *size) {
    throw InputError(fmt::format("the environment contradicts itself: {}={} is not below {}={}", names.rank, *rank,
                                 names.size, *size));
  }
  RankEnvironment found;
  found.rank = *rank;
  found.size = *size;
  found.local_rank = number(variable, names.local_rank, 0, kMost).value_or(*rank);
  found.host = "";
  found.launcher = names.launcher;
  return found;
}

// Each launcher's complete pair, the innermost first.
std::vector<std::pair<Names, RankEnvironment>> launchers(const Variable& variable) {
  std::vector<std::pair<Names, RankEnvironment>> found;
  for (const Names& names : {kWeft, kTorchrun, kSlurm, kOpenMpi, kMpich}) {
    // A batch script has SLURM_PROCID too, but is no step of srun.
    if (names.launcher == kSlurm.launcher && variable("SLURM_STEP_NODELIST") == nullptr) continue;
    if (const auto ranks = ranks_of(variable, names)) found.emplace_back(names, *ranks);
  }
  return found;
}

void check_agreement(const Variable& variable, const std::vector<std::pair<Names, RankEnvironment>>& found) {
  const auto& [names, ranks] = found[0];
  // Both start processes of their own below those that another launcher started.
  if (names.launcher == kWeft.launcher) return;
  if (names.launcher == kTorchrun.launcher && variable("TORCHELASTIC_RUN_ID") != nullptr) return;
  for (const auto& [other, theirs] : found) {
    if (theirs.rank == ranks.rank && theirs.size == ranks.size) continue;
    throw InputError(
        fmt::format("the environment contradicts itself: {}={} of {}={} ({}), but {}={} of {}={} ({}); "
                    "unset those that do not belong to this run",
                    names.rank, ranks.rank, names.size, ranks.size, names.launcher, other.rank, theirs.rank, other.size,
                    theirs.size, other.launcher));
  }
}

std::string text(const Variable& variable, const char* name) {
  const char* value = variable(name);
  return value == nullptr ? "" : value;
}

// A port that two steps on one machine hardly share, below those that the kernel gives out.
int slurm_port(const Variable& variable) {
  constexpr uint64_t kFirst = 20000, kPorts = 12000;
  const std::string step = text(variable, "SLURM_JOB_ID") + "." + text(variable, "SLURM_STEP_ID");
  return static_cast<int>(kFirst + xxh3(step) % kPorts);
}

void find_meeting_point(const Variable& variable, RankEnvironment& ranks) {
  if (ranks.launcher == kWeft.launcher) {
    ranks.host = text(variable, "WEFT_ADDRESS");
    ranks.port = number(variable, "WEFT_PORT", 1, kGreatestPort).value_or(0);
    ranks.store_socket = number(variable, "WEFT_STORE_SOCKET", 0, 1 << 20).value_or(-1);
    return;
  }
  ranks.host = text(variable, "MASTER_ADDR");
  ranks.port = number(variable, "MASTER_PORT", 1, kGreatestPort).value_or(0);
  if (ranks.launcher == kTorchrun.launcher) {
    ranks.store_is_hosted = text(variable, "TORCHELASTIC_USE_AGENT_STORE") == "True";
    ranks.attempt = number(variable, "TORCHELASTIC_RESTART_COUNT", 0, 1 << 24).value_or(0);
  } else if (ranks.launcher == kSlurm.launcher) {
    if (ranks.host.empty()) ranks.host = first_host(text(variable, "SLURM_STEP_NODELIST"));
    if (ranks.port == 0) ranks.port = slurm_port(variable);
  } else {
    const auto here = number(variable, "OMPI_COMM_WORLD_LOCAL_SIZE", 1, 1 << 24);
    if (ranks.host.empty() && here == ranks.size) ranks.host = "127.0.0.1";
  }
}

}  // namespace

std::string first_host(const std::string& list) {
  const size_t bracket = list.find_first_of("[,");
  if (bracket == std::string::npos || list[bracket] == ',') return list.substr(0, bracket);
  const size_t end = list.find_first_of("-,]", bracket);
  const size_t close = list.find(']', bracket);
  if (close == std::string::npos) return list;
  const size_t suffix_end = std::min(list.find(',', close), list.size());
  return list.substr(0, bracket) + list.substr(bracket + 1, end - bracket - 1) +
         list.substr(close + 1, suffix_end - close - 1);
}

RankEnvironment read_rank_environment(const Variable& variable) {
  const auto found = launchers(variable);
  RankEnvironment ranks;
  if (!found.empty()) {
    check_agreement(variable, found);
    ranks = found[0].second;
    find_meeting_point(variable, ranks);
  }
  ranks.threads = number(variable, "WEFT_THREAD_RANKS", 1, 4096).value_or(0);
  if (ranks.threads > 0 && ranks.size > 1) {
    throw InputError(
        fmt::format("the environment contradicts itself: WEFT_THREAD_RANKS={} makes ranks of threads, "
                    "but {} started {} processes",
                    ranks.threads, ranks.launcher, ranks.size));
  }
  return ranks;
}

}  // namespace weft::operate
