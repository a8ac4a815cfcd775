// One rank of the tests of gloo: gloo_worker SCENARIO TIMEOUT_MS, with its place in the environment. Ends as weft's
// programs do.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "base/hash.h"
#include "comm/gloo/gloo_world.h"
#include "comm/test_calls.h"
#include "operate/launch.h"

namespace weft::comm {
namespace {

std::vector<int> all_ranks(int size) {
  std::vector<int> ranks(size);
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

void check(Communicator& group) {
  StreamingHash hash;
  int wrong = 0;
  for (const TestResult& result : TestCalls(group).run()) {
    if (result.bytes != result.expected) {
      std::fprintf(stderr, "%s, rank %d: wrong\n", result.name.c_str(), group.rank());
      ++wrong;
    }
    hash.update(result.bytes);
  }
  std::printf("%s of %d: %d wrong\n", group.name().c_str(), group.size(), wrong);
  if (wrong > 0) throw Error("results differ");
}

// The same calls in the whole world and in two halves at the same time.
void check_all(World& world) {
  const auto all = world.make_group(all_ranks(world.size()), "all");
  check(*all);
  std::vector<int> half;
  for (int rank = world.rank() % 2; rank < world.size(); rank += 2) half.push_back(rank);
  const auto own = world.make_group(half, "half");
  check(*own);
  check(*all);
}

Handle sum(Communicator& group, std::vector<float>& numbers, int64_t count, std::string_view what) {
  return group.all_reduce({numbers.data(), count, mesh::ElementType::kFloat32}, Reduction::kSum, what);
}

void fail(World& world, const std::string& scenario) {
  const auto all = world.make_group(all_ranks(world.size()), "all");
  const bool odd_one = world.rank() == 1;
  std::vector<float> numbers(1 << 21);
  sum(*all, numbers, 100, "first")->wait();
  if (scenario == "skip" && odd_one) {
    all->barrier("step")->wait();
  } else if (scenario == "size" && odd_one) {
    sum(*all, numbers, 99, "gradient")->wait();
  } else if (scenario == "throw" && odd_one) {
    throw InputError("the loss is not a number");
  } else if (scenario == "abort" && odd_one) {
    world.abort("the disk is full");
    return;
  } else if (scenario == "end" && odd_one) {
    return;
  } else if (scenario == "loop") {
    std::printf("looping\n");
    std::fflush(stdout);
    while (true) sum(*all, numbers, static_cast<int64_t>(numbers.size()), "gradient")->wait();
  }
  sum(*all, numbers, 100, "gradient")->wait();
  all->barrier("step")->wait();
  throw Error("every call was done");
}

int run(const std::string& scenario, int timeout_ms) {
  const auto environment = operate::read_rank_environment([](const char* name) { return std::getenv(name); });
  CommSettings settings;
  settings.timeout = std::chrono::milliseconds(timeout_ms);
  const auto world = make_gloo_world(environment, settings);
  try {
    if (scenario == "calls") {
      check_all(*world);
    } else {
      fail(*world, scenario);
    }
  } catch (const Error& error) {
    world->abort(error.what());
    throw;
  }
  return 0;
}

}  // namespace
}  // namespace weft::comm

int main(int count, char** arguments) {
  if (count != 3) return 2;
  std::signal(SIGPIPE, SIG_IGN);  // as weft-engine does: a peer that ended is an error of the write
  try {
    if (std::string_view(arguments[1]) == "launch") {
      return weft::operate::launch({.command = {"/proc/self/exe", "calls", "60000"}, .ranks = std::stoi(arguments[2])});
    }
    return weft::comm::run(arguments[1], std::stoi(arguments[2]));
  } catch (const weft::Error& error) {
    std::fprintf(stderr, "weft: %s\n", error.what());
    return static_cast<int>(error.exit_code());
  }
}
