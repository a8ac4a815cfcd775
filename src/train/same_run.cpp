#include "train/same_run.h"

#include <sstream>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "comm/text.h"

namespace weft::train {
namespace {

constexpr const char* kWhat = "the run's configuration";

std::string first_difference(const std::string& first, const std::string& own) {
  std::istringstream of_first(first), of_own(own);
  std::string line, own_line, section;
  for (;;) {
    const bool more = static_cast<bool>(std::getline(of_first, line));
    const bool own_more = static_cast<bool>(std::getline(of_own, own_line));
    if (!more) line = "nothing";
    if (!own_more) own_line = "nothing";
    if (line != own_line || !more) return fmt::format("{}rank 0 has {}, this rank has {}", section, line, own_line);
    if (line.starts_with("[")) section = line + ": ";
  }
}

}  // namespace

void check_same_run(const std::string& configuration, comm::Communicator& world) {
  const std::string first = comm::broadcast_text(configuration, 0, world, kWhat);
  const int64_t differs = first == configuration ? 0 : 1;
  std::vector<int64_t> all(static_cast<size_t>(world.size()));
  const std::vector<int64_t> ones(all.size(), 1);
  world
      .all_gather({&differs, 1, mesh::ElementType::kInt64},
                  {all.data(), static_cast<int64_t>(all.size()), mesh::ElementType::kInt64}, ones, kWhat)
      ->wait();
  if (differs != 0) {
    throw InputError(fmt::format("rank {} was given another run than rank 0: {}", world.rank(),
                                 first_difference(first, configuration)));
  }
  std::vector<int> others;
  for (size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank] != 0) others.push_back(static_cast<int>(rank));
  }
  if (!others.empty()) {
    throw InputError(
        fmt::format("rank {} was given another run than rank 0; all ranks need the same", fmt::join(others, ", ")));
  }
}

}  // namespace weft::train
