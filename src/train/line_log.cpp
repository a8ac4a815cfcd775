#include "train/line_log.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <string>
#include <unistd.h>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"

namespace weft::train {
namespace {

bool belongs_to_steps_until(std::string_view line, int64_t last_step) {
  try {
    const Json object = parse_json(line, "line");
    return object.is_object() && object.contains("step") && object["step"].is_number_integer() &&
           object["step"].get<int64_t>() <= last_step;
  } catch (const InputError&) {
    return false;
  }
}

// The length of the part to keep, in bytes.
size_t kept_length(std::string_view text, int64_t last_step) {
  size_t kept = 0;
  while (kept < text.size()) {
    const size_t end = text.find('\n', kept);
    if (end == std::string_view::npos) break;  // torn
    if (!belongs_to_steps_until(text.substr(kept, end - kept), last_step)) break;
    kept = end + 1;
  }
  return kept;
}

}  // namespace

LineLog::LineLog(std::filesystem::path path, std::optional<int64_t> last_step) : path_(std::move(path)) {
  file_ = open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (file_ < 0) throw Error(fmt::format("{}: {}", path_.string(), std::strerror(errno)));
  if (!last_step) return;
  const size_t kept = kept_length(read_file(path_), *last_step);
  if (ftruncate(file_, static_cast<off_t>(kept)) != 0) {
    const int reason = errno;
    close(file_);
    throw Error(fmt::format("{}: {}", path_.string(), std::strerror(reason)));
  }
}

LineLog::~LineLog() { close(file_); }

void LineLog::append(const OrderedJson& object) {
  const std::string line = dump_json(object) + "\n";
  const ssize_t written = write(file_, line.data(), line.size());
  if (written < 0) throw Error(fmt::format("{}: {}", path_.string(), std::strerror(errno)));
  // A disk that fills up takes a part of a line; a resume drops it.
  if (static_cast<size_t>(written) != line.size()) throw Error(fmt::format("{}: the disk is full", path_.string()));
}

}  // namespace weft::train
