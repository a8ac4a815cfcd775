// Which rank of how many this process is, as the program that started it says in the environment: `weft launch`,
// torchrun, srun or mpirun.
#pragma once

#include <functional>
#include <string>

namespace weft::operate {

struct RankEnvironment {
  int rank = 0;
  int size = 1;        // ranks in all
  int local_rank = 0;  // among those on this machine
  // Where the ranks meet: the store of rank 0, or one that the launcher serves already. Empty and 0 where the launcher
  // does not say: then the run file must (comm.address, comm.port).
  std::string host = "127.0.0.1";
  int port = 0;
  bool store_is_hosted = false;
  int store_socket = -1;  // of rank 0: the store's socket, which the launcher has opened; -1: it opens its own
  int attempt = 0;        // how often the launcher has started these ranks before: a hosted store remembers
  int threads = 0;        // if not 0: this process is all of this many ranks, a thread each, and `size` is 1
  std::string launcher;   // "weft launch", "torchrun", "srun", "mpirun"; empty: a plain run
};

// `variable` gives an environment variable's value, or null (std::getenv). The innermost launcher counts: WEFT_RANK,
// then torchrun's, then srun's and mpirun's, which must agree where both are there. InputError names the variables that
// are missing, no numbers, or contradict each other.
[[nodiscard]] RankEnvironment read_rank_environment(const std::function<const char*(const char*)>& variable);

// The first host of a list as Slurm writes it: "node[03-05,9],login1" has "node03".
[[nodiscard]] std::string first_host(const std::string& list);

}  // namespace weft::operate
