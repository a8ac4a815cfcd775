#include "train/same_run.h"

#include <algorithm>
#include <array>
#include <bit>
#include <sstream>
#include <unistd.h>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "base/hash.h"
#include "comm/text.h"

namespace weft::train {
namespace {

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

std::vector<int64_t> gathered(int64_t own, comm::Communicator& world, std::string_view what) {
  std::vector<int64_t> all(static_cast<size_t>(world.size()));
  const std::vector<int64_t> ones(all.size(), 1);
  constexpr auto kType = mesh::ElementType::kInt64;
  world.all_gather({&own, 1, kType}, {all.data(), static_cast<int64_t>(all.size()), kType}, ones, what)->wait();
  return all;
}

}  // namespace

void check_same(std::string_view what, const std::string& text, comm::Communicator& world) {
  const std::string first = comm::broadcast_text(text, 0, world, what);
  const int64_t differs = first == text ? 0 : 1;
  const std::vector<int64_t> all = gathered(differs, world, what);
  if (differs != 0) {
    throw InputError(
        fmt::format("rank {} was given another {} than rank 0: {}", world.rank(), what, first_difference(first, text)));
  }
  std::vector<int> others;
  for (size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank] != 0) others.push_back(static_cast<int>(rank));
  }
  if (!others.empty()) {
    throw InputError(fmt::format("rank {} was given another {} than rank 0; all ranks need the same",
                                 fmt::join(others, ", "), what));
  }
}

int64_t ranks_on_this_machine(comm::Communicator& world) {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  const auto own = std::bit_cast<int64_t>(xxh64(name.data()));
  const std::vector<int64_t> all = gathered(own, world, "names of machines");
  return std::ranges::count(all, own);
}

}  // namespace weft::train
