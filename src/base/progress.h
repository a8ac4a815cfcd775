// What long work tells a person on standard error: how far it is, how fast, and how long it will take.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace weft {

// "8s", "3m 20s", "2h 05m", "3d 4h".
[[nodiscard]] std::string duration_text(double seconds);

// "950", "13.2k", "1.25M", "3.00G": three significant digits, as rates and counts are shown.
[[nodiscard]] std::string quantity_text(double quantity);

// "1,234,567": counts in full.
[[nodiscard]] std::string grouped_text(uint64_t count);

// One line that is rewritten in place on a terminal; elsewhere (a log file) a plain line at most every ten seconds.
// Shows nothing for work that ends within half a second. Not thread-safe.
class Progress {
 public:
  // `what` names the work ("tokenizing"), `unit` what is counted ("tokens"); total 0 means unknown.
  Progress(std::string what, std::string unit, double total);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // `done` so far, in units; `detail` is shown behind the rate ("loss 1.92"). Redraws at most ten times a second.
  void update(double done, std::string_view detail = {});

  // Ends the line, so that what follows starts on a fresh one. Later updates start a new one.
  void finish();

 private:
  std::string what_, unit_;
  double total_;
  bool terminal_;
  std::chrono::steady_clock::time_point start_, shown_;
  bool line_open_ = false;
};

// The text of such a line, apart from the clock: "tokenizing  42% 3.1M/7.4M bytes  9.2M bytes/s  0s left".
[[nodiscard]] std::string progress_text(std::string_view what, std::string_view unit, double done, double total,
                                        double seconds, std::string_view detail);

}  // namespace weft
