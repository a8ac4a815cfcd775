#include "base/machine.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <optional>
#include <sched.h>
#include <string>
#include <thread>

namespace weft {
namespace {

std::string first_line(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// The number at the start of a text; nothing for "max" and where there is none.
std::optional<uint64_t> leading_number(std::string_view text) {
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end == text.data()) return std::nullopt;
  return number;
}

// A line "KEY   12345 kB" or "KEY 12345" of a file of such lines.
std::optional<uint64_t> keyed_number(const std::filesystem::path& path, std::string_view key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(key)) continue;
    const size_t start = line.find_first_of("0123456789", key.size());
    if (start != std::string::npos) return leading_number(std::string_view(line).substr(start));
  }
  return std::nullopt;
}

constexpr uint64_t kKibi = 1024;

GroupLimits own_limits() {
  std::ifstream file("/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("0::")) return group_limits("/sys/fs/cgroup", line.substr(3));
  }
  return {};
}

}  // namespace

GroupLimits group_limits(const std::filesystem::path& root, const std::filesystem::path& group) {
  GroupLimits limits;
  std::filesystem::path below = group.relative_path();
  while (true) {
    const std::filesystem::path folder = root / below;
    if (const auto limit = leading_number(first_line(folder / "memory.max"))) {
      const uint64_t used = leading_number(first_line(folder / "memory.current")).value_or(0);
      const uint64_t droppable = keyed_number(folder / "memory.stat", "inactive_file ").value_or(0);
      const uint64_t held = used - std::min(used, droppable);
      const uint64_t left = *limit - std::min(*limit, held);
      if (limits.memory == 0 || left < limits.memory_available) limits.memory_available = left;
      limits.memory = limits.memory == 0 ? *limit : std::min(limits.memory, *limit);
    }
    const std::string quota = first_line(folder / "cpu.max");  // "QUOTA PERIOD", in microseconds
    const size_t space = quota.find(' ');
    if (const auto allowed = leading_number(quota); allowed && space != std::string::npos) {
      const auto period = leading_number(std::string_view(quota).substr(space + 1));
      const double cores = period && *period > 0 ? static_cast<double>(*allowed) / static_cast<double>(*period) : 0;
      if (cores > 0 && (limits.cores == 0 || cores < limits.cores)) limits.cores = cores;
    }
    if (below.empty()) return limits;
    below = below.parent_path();
  }
}

int usable_cores() {
  int cores = static_cast<int>(std::thread::hardware_concurrency());
  cpu_set_t mask;
  if (sched_getaffinity(0, sizeof mask, &mask) == 0) cores = CPU_COUNT(&mask);
  const double limit = own_limits().cores;
  if (limit > 0) cores = std::min(cores, static_cast<int>(std::ceil(limit)));
  return std::max(cores, 1);
}

uint64_t available_memory() {
  const uint64_t free = keyed_number("/proc/meminfo", "MemAvailable:").value_or(0) * kKibi;
  const GroupLimits limits = own_limits();
  return limits.memory == 0 ? free : std::min(free, limits.memory_available);
}

uint64_t total_memory() {
  const uint64_t all = keyed_number("/proc/meminfo", "MemTotal:").value_or(0) * kKibi;
  const GroupLimits limits = own_limits();
  return limits.memory == 0 ? all : std::min(all, limits.memory);
}

}  // namespace weft
