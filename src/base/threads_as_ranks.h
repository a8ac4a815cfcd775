// For tests: the ranks of a checkpoint as threads that gather in memory.
#pragma once

#include <barrier>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "base/checkpoint_ranks.h"
#include "base/error.h"

namespace weft {

// Runs a body on threads; what each threw, by rank.
inline std::vector<std::string> on_threads(int size, const std::function<void(const CheckpointRanks&)>& body) {
  std::barrier meeting(size);
  std::vector<std::string> said(static_cast<size_t>(size)), thrown(static_cast<size_t>(size));
  const auto run = [&](int rank) {
    const auto gather = [&, rank](std::string mine) {
      said[static_cast<size_t>(rank)] = std::move(mine);
      meeting.arrive_and_wait();
      auto all = said;
      meeting.arrive_and_wait();
      return all;
    };
    try {
      body({rank, size, gather});
    } catch (const Error& error) {
      thrown[static_cast<size_t>(rank)] = error.what();
    }
  };
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < size; ++rank) threads.emplace_back(run, rank);
  threads.clear();
  return thrown;
}

}  // namespace weft
