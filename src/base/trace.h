// When the actions of a step began and ended, predicted or measured; and the file that holds it, which Chrome and
// Perfetto open too. docs/formats/trace.md.
//
// The executor measures like this: it notes begin and end of each action of a rank's list in seconds of a steady clock,
// less that of the step's beginning, and afterwards makes the events with schedule::trace_event().
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace weft {

// In the order of schedule::Stream.
enum class TraceStream : uint8_t { kCompute, kPipelineForward, kPipelineBackward, kData, kTensor };
constexpr int kTraceStreams = 5;
[[nodiscard]] std::string_view name(TraceStream stream);  // "pipeline forward"

struct TraceEvent {
  int32_t rank = 0;  // of a prediction: the role
  int32_t role = 0;
  TraceStream stream = TraceStream::kCompute;
  std::string operation;      // "forward"
  int32_t stage = -1;         // -1: none
  int32_t micro_batch = -1;   // -1: none
  std::string action;         // "forward(stage 1, micro-batch 4)"
  double begin = 0, end = 0;  // seconds from the step's beginning

  friend bool operator==(const TraceEvent&, const TraceEvent&) = default;
};

// What a rank holds over time: `value` from `time` on.
struct TraceCurve {
  struct Point {
    double time = 0, value = 0;
    friend bool operator==(const Point&, const Point&) = default;
  };
  int32_t rank = 0;
  std::string name;  // "activations"
  std::vector<Point> points;

  friend bool operator==(const TraceCurve&, const TraceCurve&) = default;
};

struct Trace {
  std::string title;
  bool measured = false;
  std::vector<TraceEvent> events;
  std::vector<TraceCurve> curves;
};

[[nodiscard]] std::string trace_json(const Trace& trace);
// Complete or not at all (AtomicFile).
void write_trace(const std::filesystem::path& path, const Trace& trace);

// InputError names the file (`origin`) and the place of what docs/formats/trace.md does not allow.
[[nodiscard]] Trace parse_trace(std::string_view text, std::string_view origin);
[[nodiscard]] Trace read_trace(const std::filesystem::path& path);

}  // namespace weft
