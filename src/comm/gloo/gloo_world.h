// Ranks as processes, on one machine or many, over c10d's gloo.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "comm/communicator.h"
#include "operate/rank_environment.h"

namespace weft::comm {

// The run file's [comm].
struct CommSettings {
  std::string address;    // of rank 0; empty: what the environment says
  int port = 0;           // of rank 0's store; 0: what the environment says
  std::string interface;  // network interface of this machine to listen on; empty: the one that leads to rank 0
  std::chrono::milliseconds timeout = std::chrono::minutes(10);  // of the meeting at the store and of each call
};

// Meets the other ranks at the store of rank 0 (or at the launcher's). A size of one needs nobody. InputError where
// address and port are known from nowhere, or the port is in use; CommunicationError where rank 0 is not reached.
// The process ignores SIGPIPE: gloo writes to sockets whose other end may have ended.
[[nodiscard]] std::unique_ptr<World> make_gloo_world(const operate::RankEnvironment& ranks,
                                                     const CommSettings& settings);

}  // namespace weft::comm
