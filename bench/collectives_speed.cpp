// bench/collectives' ranks. `collectives_speed threads OPERATION RANKS BYTES CALLS` is all ranks of that many; `gloo`
// and `c10d` instead of threads are one rank, with its place in the environment, through our gloo groups and through
// c10d's process group as it is. Prints a line of JSON: CPU and wall milliseconds a call of this process.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <string>
#include <sys/resource.h>
#include <vector>

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "comm/gloo/gloo_world.h"
#include "comm/threads.h"

namespace {

using weft::comm::Communicator;

struct Work {
  std::string operation;
  int ranks;
  int64_t bytes;  // of the whole value
  int calls;
  [[nodiscard]] int64_t count() const { return bytes / 4 / ranks * ranks; }
};

double cpu_milliseconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto of = [](const timeval& time) {
    return 1e3 * static_cast<double>(time.tv_sec) + 1e-3 * static_cast<double>(time.tv_usec);
  };
  return of(usage.ru_utime) + of(usage.ru_stime);
}

// Of `calls` calls, the first two apart: they allocate and connect.
template <class Call, class Barrier>
void measure(const Work& work, bool prints, const Call& call, const Barrier& barrier) {
  for (int i = 0; i < 2; ++i) call();
  barrier();
  const double cpu = cpu_milliseconds();
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < work.calls; ++i) call();
  barrier();
  const std::chrono::duration<double, std::milli> wall = std::chrono::steady_clock::now() - start;
  if (prints) {
    fmt::print("{{\"cpu_ms\": {:.4f}, \"wall_ms\": {:.4f}}}\n", (cpu_milliseconds() - cpu) / work.calls,
               wall.count() / work.calls);
  }
}

void run_ours(const Work& work, Communicator& group, bool prints) {
  const auto f32 = weft::mesh::ElementType::kFloat32;
  const int64_t count = work.count(), part = count / work.ranks;
  const std::vector<int64_t> counts(static_cast<size_t>(work.ranks), part);
  std::vector<float> whole(static_cast<size_t>(count), 1e-3F), other(static_cast<size_t>(count), 0);
  const auto call = [&] {
    const weft::comm::Target all{whole.data(), count, f32}, own{other.data(), part, f32},
        result{other.data(), count, f32};
    const auto sum = weft::comm::Reduction::kSum;
    if (work.operation == "all_reduce") group.all_reduce(all, sum, "bench")->wait();
    if (work.operation == "reduce_scatter") group.reduce_scatter(all.source(), own, counts, sum, "bench")->wait();
    if (work.operation == "all_gather") group.all_gather(own.source(), all, counts, "bench")->wait();
    if (work.operation == "all_to_all") group.all_to_all(all.source(), counts, result, counts, "bench")->wait();
  };
  measure(work, prints, call, [&] { group.barrier("bench")->wait(); });
}

void run_c10d(const Work& work, const weft::operate::RankEnvironment& ranks) {
  c10d::TCPStoreOptions store_options;
  store_options.port = static_cast<uint16_t>(ranks.port);
  store_options.isServer = ranks.rank == 0;
  store_options.waitWorkers = false;
  const auto store = c10::make_intrusive<c10d::TCPStore>(ranks.host, store_options);
  const auto options = c10d::ProcessGroupGloo::Options::create();
  options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1"));
  const auto group = c10::make_intrusive<c10d::ProcessGroupGloo>(store, ranks.rank, ranks.size, options);
  at::Tensor whole = at::full({work.count()}, 1e-3), other = at::zeros({work.count()});
  at::Tensor own = other.slice(0, 0, work.count() / work.ranks);
  std::vector<at::Tensor> list = {whole};
  std::vector<int64_t> even;
  const auto call = [&] {
    if (work.operation == "all_reduce") group->allreduce(list)->wait();
    if (work.operation == "reduce_scatter") group->reduce_scatter_single(own, whole)->wait();
    if (work.operation == "all_gather") group->all_gather_single(whole, own)->wait();
    if (work.operation == "all_to_all") group->all_to_all_single(other, whole, even, even)->wait();
  };
  measure(work, true, call, [&] { group->barrier()->wait(); });
}

std::vector<int> all_ranks(int size) {
  std::vector<int> ranks(static_cast<size_t>(size));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 6) {
    std::fputs("usage: collectives_speed threads|gloo|c10d OPERATION RANKS BYTES CALLS\n", stderr);
    return 2;
  }
  const std::string how = arguments[1];
  const Work work{arguments[2], std::stoi(arguments[3]), std::stoll(arguments[4]), std::stoi(arguments[5])};
  if (how == "threads") {
    weft::comm::run_ranks(work.ranks, [&](weft::comm::World& world) {
      run_ours(work, *world.make_group(all_ranks(world.size()), "all"), world.rank() == 0);
    });
    return 0;
  }
  const auto ranks = weft::operate::read_rank_environment([](const char* name) { return std::getenv(name); });
  if (how == "c10d") {
    run_c10d(work, ranks);
  } else {
    const auto world = weft::comm::make_gloo_world(ranks, {});
    run_ours(work, *world->make_group(all_ranks(world->size()), "all"), true);
  }
  return 0;
}
