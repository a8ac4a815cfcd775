// Files of one JSON object a line that grow while a run goes on: metrics.jsonl and events.jsonl.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>

#include "base/json_fwd.h"

namespace weft::train {

// Every line reaches the operating system at once, so that a killed process loses none. One thread.
class LineLog {
 public:
  // Opens to append; makes the file. With `last_step`, lines whose `step` is greater are dropped first, and so is
  // everything from the first line that is not a JSON object with a `step` (a torn one): what follows then continues
  // the file as if the steps behind had never been. Error names the file.
  explicit LineLog(std::filesystem::path path, std::optional<int64_t> last_step = std::nullopt);
  ~LineLog();
  LineLog(const LineLog&) = delete;
  LineLog& operator=(const LineLog&) = delete;

  void append(const OrderedJson& object);

 private:
  std::filesystem::path path_;
  int file_ = -1;
};

}  // namespace weft::train
