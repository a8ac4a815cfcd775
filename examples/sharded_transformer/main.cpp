// sharded_transformer [FSDP TP]: trains on ranks that are threads, and prints the losses.
#include <cstdlib>

#include <fmt/format.h>

#include "base/error.h"
#include "comm/threads.h"
#include "transformer.h"

int main(int count, char** words) {
  const int fsdp = count > 2 ? std::atoi(words[1]) : 2, tp = count > 2 ? std::atoi(words[2]) : 2;
  try {
    weft::comm::run_ranks(fsdp * tp, [&](weft::comm::World& world) {
      const std::vector<double> losses = weft::example::train(world, fsdp, tp, 20);
      if (world.rank() > 0) return;
      for (const double loss : losses) fmt::print("{:.6f}\n", loss);
    });
  } catch (const weft::Error& error) {
    fmt::print(stderr, "sharded_transformer: {}\n", error.what());
    return 1;
  }
  return 0;
}
