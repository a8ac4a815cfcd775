#include "base/progress.h"

#include <array>
#include <cmath>
#include <cstdio>
#include <unistd.h>

#include <fmt/format.h>

namespace weft {

std::string duration_text(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0) return "?";
  const auto whole = static_cast<int64_t>(std::llround(seconds));
  const int64_t minutes = whole / 60, hours = minutes / 60, days = hours / 24;
  if (days > 0) return fmt::format("{}d {}h", days, hours % 24);
  if (hours > 0) return fmt::format("{}h {:02}m", hours, minutes % 60);
  if (minutes > 0) return fmt::format("{}m {:02}s", minutes, whole % 60);
  return fmt::format("{}s", whole);
}

std::string quantity_text(double quantity) {
  static constexpr std::array<std::string_view, 5> kSuffixes = {"", "k", "M", "G", "T"};
  size_t suffix = 0;
  // 999.5 already rounds to 1000, which has four digits.
  while (std::abs(quantity) >= 999.5 && suffix + 1 < kSuffixes.size()) {
    quantity /= 1000;
    ++suffix;
  }
  if (suffix == 0 && quantity == std::floor(quantity)) return fmt::format("{:.0f}", quantity);
  const int decimals = std::abs(quantity) >= 99.95 ? 0 : std::abs(quantity) >= 9.995 ? 1 : 2;
  return fmt::format("{:.{}f}{}", quantity, decimals, kSuffixes[suffix]);
}

std::string grouped_text(uint64_t count) {
  const std::string digits = std::to_string(count);
  std::string text;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}

std::string progress_text(std::string_view what, std::string_view unit, double done, double total, double seconds,
                          std::string_view detail) {
  const double rate = seconds > 0 ? done / seconds : 0;
  std::string text(what);
  if (total > 0) {
    // Rounded down: 100 % is shown when all is done, not before.
    text += fmt::format(" {:3.0f}% {}/{} {}", std::floor(100 * done / total), quantity_text(done), quantity_text(total),
                        unit);
  } else {
    text += fmt::format(" {} {}", quantity_text(done), unit);
  }
  text += fmt::format("  {} {}/s", quantity_text(rate), unit);
  if (!detail.empty()) text += fmt::format("  {}", detail);
  if (total > 0 && rate > 0) text += fmt::format("  {} left", duration_text((total - done) / rate));
  return text;
}

Progress::Progress(std::string what, std::string unit, double total)
    : what_(std::move(what)),
      unit_(std::move(unit)),
      total_(total),
      terminal_(isatty(STDERR_FILENO) != 0),
      start_(std::chrono::steady_clock::now()),
      shown_(start_) {}

Progress::~Progress() { finish(); }

void Progress::update(double done, std::string_view detail) {
  using namespace std::chrono_literals;
  const auto now = std::chrono::steady_clock::now();
  if (now - start_ < 500ms || now - shown_ < (terminal_ ? 100ms : 10'000ms)) return;
  shown_ = now;
  const double seconds = std::chrono::duration<double>(now - start_).count();
  const std::string text = progress_text(what_, unit_, done, total_, seconds, detail);
  // "\33[K" clears what a longer line before left behind.
  std::fputs(terminal_ ? fmt::format("\r{}\33[K", text).c_str() : fmt::format("{}\n", text).c_str(), stderr);
  line_open_ = terminal_;
}

void Progress::finish() {
  if (line_open_) std::fputc('\n', stderr);
  line_open_ = false;
}

}  // namespace weft
