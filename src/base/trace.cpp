#include "base/trace.h"

#include <array>
#include <cmath>
#include <map>
#include <set>

#include <fmt/format.h>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"

namespace weft {
namespace {

constexpr std::string_view kFormat = "weft trace";
constexpr std::string_view kVersion = "1";
constexpr size_t kMostBytes = size_t{256} << 20;
constexpr size_t kMostEvents = 4'000'000;
constexpr int64_t kMostRanks = int64_t{1} << 20;
constexpr double kMostMicroseconds = 1e11;

std::string json_text(const std::string& text) { return dump_json(Json(text)); }

double microseconds(double seconds) { return std::round(seconds * 1e9) / 1e3; }

void append_metadata(const Trace& trace, std::string& text) {
  std::map<int32_t, int32_t> roles;
  std::set<std::pair<int32_t, TraceStream>> streams;
  for (const TraceEvent& event : trace.events) {
    roles.emplace(event.rank, event.role);
    streams.emplace(event.rank, event.stream);
  }
  for (const auto& [rank, role] : roles) {
    const std::string process =
        trace.measured ? fmt::format("rank {}, role {}", rank, role) : fmt::format("role {}", role);
    text += fmt::format(R"({{"ph":"M","pid":{},"name":"process_name","args":{{"name":"{}"}}}},)", rank, process);
    text += '\n';
  }
  for (const auto& [rank, stream] : streams) {
    text += fmt::format(R"({{"ph":"M","pid":{},"tid":{},"name":"thread_name","args":{{"name":"{}"}}}},)", rank,
                        static_cast<int>(stream), name(stream));
    text += '\n';
  }
}

void append(const TraceEvent& event, std::string& text) {
  std::string label = event.operation, numbers;
  const int32_t number = event.micro_batch >= 0 ? event.micro_batch : event.stage;
  if (number >= 0) label += fmt::format(" {}", number);
  if (event.stage >= 0) numbers += fmt::format(",\"stage\":{}", event.stage);
  if (event.micro_batch >= 0) numbers += fmt::format(",\"micro_batch\":{}", event.micro_batch);
  const double begin = microseconds(event.begin);
  text += fmt::format(
      R"({{"ph":"X","pid":{},"tid":{},"ts":{:.3f},"dur":{:.3f},"name":{},"cat":{},"args":{{"action":{},"role":{}{}}}}},)",
      event.rank, static_cast<int>(event.stream), begin, microseconds(event.end) - begin, json_text(label),
      json_text(event.operation), json_text(event.action), event.role, numbers);
  text += '\n';
}

// The events of a file, checked one by one.
class Reader {
 public:
  explicit Reader(std::string_view origin) : origin_(origin) {}

  Trace read(const Json& json) {
    const JsonReader file(json, origin_);
    const JsonReader about = file.at("otherData");
    if (about.string("format") != kFormat) about.fail(fmt::format("format is not \"{}\"", kFormat));
    if (about.string("version") != kVersion) about.fail(fmt::format("version is not \"{}\"", kVersion));
    const std::string source = about.string("source");
    if (source != "predicted" && source != "measured") about.fail("source is neither \"predicted\" nor \"measured\"");
    trace_.measured = source == "measured";
    trace_.title = about.string("title", "");
    const JsonReader events = file.at("traceEvents");
    if (events.size() > kMostEvents) events.fail(fmt::format("more than {} events", kMostEvents));
    for (size_t i = 0; i < events.size(); ++i) read_event(events.at(i));
    return std::move(trace_);
  }

 private:
  static int64_t bounded(const JsonReader& reader, std::string_view key, int64_t least, int64_t bound) {
    const int64_t value = reader.integer(key);
    if (value < least || value >= bound) reader.at(key).fail(fmt::format("expected {} to {}", least, bound - 1));
    return value;
  }

  static double time(const JsonReader& reader, std::string_view key) {
    const double value = reader.number(key);
    if (!(value >= 0 && value <= kMostMicroseconds)) reader.at(key).fail("expected 0 to 1e11 microseconds");
    return value;
  }

  void read_event(const JsonReader& reader) {
    const std::string phase = reader.string("ph");
    if (phase == "M") return;
    if (phase == "C") return read_point(reader);
    if (phase != "X") reader.at("ph").fail("expected \"X\", \"C\" or \"M\"");
    const JsonReader arguments = reader.at("args");
    TraceEvent& event = trace_.events.emplace_back();
    event.rank = static_cast<int32_t>(bounded(reader, "pid", 0, kMostRanks));
    event.stream = static_cast<TraceStream>(bounded(reader, "tid", 0, kTraceStreams));
    const double begin = time(reader, "ts");
    event.begin = begin / 1e6;
    event.end = (begin + time(reader, "dur")) / 1e6;
    event.operation = reader.string("cat");
    event.action = arguments.string("action");
    event.role = static_cast<int32_t>(bounded(arguments, "role", 0, kMostRanks));
    for (const auto& [key, field] : {std::pair{"stage", &event.stage}, std::pair{"micro_batch", &event.micro_batch}}) {
      if (arguments.has(key)) *field = static_cast<int32_t>(bounded(arguments, key, 0, int64_t{1} << 31));
    }
  }

  void read_point(const JsonReader& reader) {
    const int32_t rank = static_cast<int32_t>(bounded(reader, "pid", 0, kMostRanks));
    const std::string label = reader.string("name");
    const auto [found, inserted] = curves_.try_emplace({rank, label}, trace_.curves.size());
    if (inserted) trace_.curves.push_back({rank, label, {}});
    std::vector<TraceCurve::Point>& points = trace_.curves[found->second].points;
    const double at = time(reader, "ts") / 1e6;
    if (!points.empty() && at < points.back().time) reader.at("ts").fail("is before the point in front of it");
    points.push_back({at, reader.at("args").number("held")});
  }

  std::string_view origin_;
  std::map<std::pair<int32_t, std::string>, size_t> curves_;
  Trace trace_;
};

}  // namespace

std::string_view name(TraceStream stream) {
  constexpr std::array<std::string_view, kTraceStreams> kNames = {"compute", "pipeline forward", "pipeline backward",
                                                                  "data", "tensor"};
  return kNames[static_cast<size_t>(stream)];
}

std::string trace_json(const Trace& trace) {
  std::string text = fmt::format(
      "{{\"displayTimeUnit\":\"ms\",\n\"otherData\":{{\"format\":\"{}\",\"version\":\"{}\",\"source\":\"{}\",\"title\":"
      "{}}},\n\"traceEvents\":[\n",
      kFormat, kVersion, trace.measured ? "measured" : "predicted", json_text(trace.title));
  append_metadata(trace, text);
  for (const TraceEvent& event : trace.events) append(event, text);
  for (const TraceCurve& curve : trace.curves) {
    const std::string label = json_text(curve.name);
    for (const TraceCurve::Point& point : curve.points) {
      text += fmt::format(R"({{"ph":"C","pid":{},"ts":{:.3f},"name":{},"args":{{"held":{}}}}},)", curve.rank,
                          microseconds(point.time), label, point.value);
      text += '\n';
    }
  }
  if (text.ends_with(",\n")) text.erase(text.size() - 2, 1);
  text += "]}\n";
  return text;
}

void write_trace(const std::filesystem::path& path, const Trace& trace) { write_file(path, trace_json(trace)); }

Trace parse_trace(std::string_view text, std::string_view origin) {
  return Reader(origin).read(parse_json(text, origin, {.bytes = kMostBytes, .depth = 8}));
}

Trace read_trace(const std::filesystem::path& path) { return parse_trace(read_file(path, kMostBytes), path.string()); }

}  // namespace weft
