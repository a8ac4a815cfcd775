// Starts a program once for each rank on this machine, and sees to it that none is left behind.
#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace weft::operate {

struct LaunchRequest {
  std::vector<std::string> command;  // the program's path, then its arguments
  int ranks = 1;
  int port = 0;                 // of the store where the ranks meet; 0: a free one
  std::string log_folder = {};  // made if it is not there; empty: one of our own, which goes when all is well
  // After a rank failed, the others find out by themselves; after this they are told to end, and after it again they
  // are ended.
  std::chrono::milliseconds grace = std::chrono::seconds(10);
};

// Runs the ranks and returns when all have ended: 0, or the exit code of the first that failed (128 + the signal of one
// that was killed). The environment of each is this process's, with what read_rank_environment() understands as
// "weft launch", and one thread for OpenMP unless the user has set another number. Rank 0 has this process's output;
// that of another goes to rank-N.log in the log folder, and its end to standard error if it fails first. SIGINT and
// SIGTERM are passed on to all ranks; those that then end with ExitCode::kInterrupted have not failed. If this process
// is killed, so are the ranks. InputError: the port is in use, the log folder cannot be made; Error: the program cannot
// be started. Changes the signal mask of the calling thread while it runs.
[[nodiscard]] int launch(const LaunchRequest& request);

}  // namespace weft::operate
