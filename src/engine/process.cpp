#include "engine/process.h"

#include <csignal>
#include <malloc.h>

#include <ATen/Parallel.h>

#include "base/machine.h"
#include "kernel/process.h"

namespace weft::engine {
namespace {

std::atomic<int> stopped_by = 0;
static_assert(std::atomic<int>::is_always_lock_free);  // or a signal handler could not use it

void stop(int signal) {
  stopped_by = signal;
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
}

}  // namespace

void start_process() {
  // A file size limit then is an error of the write, as a full disk is.
  std::signal(SIGXFSZ, SIG_IGN);
  // A reader of standard output that went away is an error of the write too.
  std::signal(SIGPIPE, SIG_IGN);
}

void set_threads(int threads, bool reproducible) {
  kernel::start_process({.threads = threads > 0 ? threads : usable_cores(), .reproducible = reproducible});
}

const std::atomic<int>& stop_signal() { return stopped_by; }

void watch_stop_signals() {
  struct sigaction action {};
  action.sa_handler = stop;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

}  // namespace weft::engine
