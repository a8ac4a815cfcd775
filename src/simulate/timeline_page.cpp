#include "simulate/timeline_page.h"

#include <algorithm>
#include <map>
#include <tuple>

#include <fmt/format.h>

#include "base/error.h"
#include "base/json.h"

namespace weft::simulate {
namespace {

constexpr size_t kMostEvents = 1'000'000;

// Events of one stream of one rank, in the order of their begin.
using LaneKey = std::tuple<int32_t, TraceStream, size_t, int32_t>;  // role, stream, trace, rank
using Lanes = std::map<LaneKey, std::vector<const TraceEvent*>>;

Lanes lanes_of(std::span<const Trace> traces) {
  Lanes lanes;
  size_t count = 0;
  for (size_t i = 0; i < traces.size(); ++i) {
    count += traces[i].events.size();
    for (const TraceEvent& event : traces[i].events) {
      lanes[{event.role, event.stream, i, event.rank}].push_back(&event);
    }
  }
  if (count > kMostEvents) {
    throw InputError(fmt::format("{} events are too many for a timeline page, which holds {}", count, kMostEvents));
  }
  for (auto& [key, events] : lanes) std::ranges::stable_sort(events, {}, &TraceEvent::begin);
  return lanes;
}

// The stages of each role, ascending: which chunk of it an event belongs to.
std::map<int32_t, std::vector<int32_t>> stages_of(std::span<const Trace> traces) {
  std::map<int32_t, std::vector<int32_t>> stages;
  for (const Trace& trace : traces) {
    for (const TraceEvent& event : trace.events) {
      std::vector<int32_t>& known = stages[event.role];
      const auto place = std::ranges::lower_bound(known, event.stage);
      if (event.stage >= 0 && (place == known.end() || *place != event.stage)) known.insert(place, event.stage);
    }
  }
  return stages;
}

std::string source(const Trace& trace) { return trace.measured ? "measured" : "predicted"; }

std::string short_label(TraceStream stream) {
  switch (stream) {
    case TraceStream::kCompute:
      return "compute";
    case TraceStream::kPipelineForward:
      return "sends";
    case TraceStream::kPipelineBackward:
      return "gradients";
    case TraceStream::kData:
      return "data";
    case TraceStream::kTensor:
      return "tensor";
  }
  return {};
}

double rounded(double value) { return std::stod(fmt::format("{:.9g}", value)); }

class DataBuilder {
 public:
  explicit DataBuilder(std::span<const Trace> traces) : traces_(traces), stages_(stages_of(traces)) {}

  OrderedJson lane(const LaneKey& key, const std::vector<const TraceEvent*>& events) {
    const auto [role, stream, trace, rank] = key;
    const std::vector<int32_t>& stages = stages_.at(role);
    OrderedJson begins = OrderedJson::array(), ends = begins, operations = begins, batches = begins, shades = begins,
                texts = begins;
    double last = 0;
    for (const TraceEvent* event : events) {
      const auto chunk = std::ranges::lower_bound(stages, event->stage) - stages.begin();
      const double shade = event->stage < 0 || stages.size() < 2
                               ? 0
                               : static_cast<double>(chunk) / static_cast<double>(stages.size() - 1);
      begins.push_back(rounded(event->begin));
      ends.push_back(rounded(event->end));
      operations.push_back(operation(event->operation));
      batches.push_back(event->micro_batch);
      shades.push_back(std::min(1.0, std::round(shade * 100) / 100));
      texts.push_back(event->action);
      last = std::max(last, event->end);
    }
    const bool measured = traces_[trace].measured;
    const std::string who = measured ? fmt::format("rank {}, role {}", rank, role) : fmt::format("role {}", role);
    return {{"role", role},
            {"stream", static_cast<int>(stream)},
            {"trace", trace},
            {"label", traces_.size() > 1 && measured ? fmt::format("rank {}", rank) : short_label(stream)},
            {"place", fmt::format("{}, {}", who, name(stream))},
            {"last", last},
            {"begins", begins},
            {"ends", ends},
            {"operations", operations},
            {"batches", batches},
            {"shades", shades},
            {"texts", texts}};
  }

  [[nodiscard]] OrderedJson operations() const { return operations_; }

 private:
  size_t operation(const std::string& name) {
    const auto found = std::ranges::find(operations_, name);
    if (found != operations_.end()) return static_cast<size_t>(found - operations_.begin());
    operations_.push_back(name);
    return operations_.size() - 1;
  }

  std::span<const Trace> traces_;
  std::map<int32_t, std::vector<int32_t>> stages_;
  std::vector<std::string> operations_;
};

OrderedJson curves_json(std::span<const Trace> traces) {
  OrderedJson curves = OrderedJson::array();
  for (size_t i = 0; i < traces.size(); ++i) {
    std::map<int32_t, int32_t> roles;
    for (const TraceEvent& event : traces[i].events) roles.emplace(event.rank, event.role);
    for (const TraceCurve& curve : traces[i].curves) {
      OrderedJson times = OrderedJson::array(), values = times;
      for (const TraceCurve::Point& point : curve.points) {
        times.push_back(rounded(point.time));
        values.push_back(point.value);
      }
      const auto role = roles.find(curve.rank);
      curves.push_back({{"role", role == roles.end() ? curve.rank : role->second},
                        {"trace", i},
                        {"unit", curve.name},
                        {"times", times},
                        {"values", values}});
    }
  }
  return curves;
}

OrderedJson data_json(std::span<const Trace> traces, const PageText& text) {
  DataBuilder builder(traces);
  OrderedJson lanes = OrderedJson::array(), facts = lanes, roles = lanes, sources = lanes, idle = lanes;
  for (const auto& [key, events] : lanes_of(traces)) lanes.push_back(builder.lane(key, events));
  for (const PageText::Fact& fact : text.facts) {
    facts.push_back({{"label", fact.label}, {"value", fact.value}, {"meaning", fact.meaning}});
  }
  for (const RoleSimulation& role : text.roles) {
    roles.push_back({{"busy", role.busy},
                     {"idle", role.idle},
                     {"peak", role.peak},
                     {"gathers", role.gathers},
                     {"reductions", role.reductions},
                     {"messages", role.messages}});
  }
  for (size_t which = 0; which < kIdleClasses; ++which) idle.push_back(name(static_cast<Idle>(which)));
  for (const Trace& trace : traces) sources.push_back({{"source", source(trace)}, {"title", trace.title}});
  return {{"seconds", std::ranges::any_of(traces, &Trace::measured)},
          {"traces", sources},
          {"facts", facts},
          {"idle", idle},
          {"roles", roles},
          {"operations", builder.operations()},
          {"lanes", lanes},
          {"curves", curves_json(traces)}};
}

std::string html_text(std::string_view text) {
  std::string result;
  for (const char letter : text) {
    switch (letter) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '"':
        result += "&quot;";
        break;
      default:
        result += letter;
    }
  }
  return result;
}

// "</script>" in a text must not end the element.
std::string without_tags(std::string json) {
  for (size_t at = json.find('<'); at != std::string::npos; at = json.find('<', at)) json.replace(at, 1, "\\u003c");
  return json;
}

std::string number(double value) { return fmt::format("{:.6g}", value); }

}  // namespace

PageText page_text(const Simulation& simulation, std::string title) {
  double peak = 0;
  for (const RoleSimulation& role : simulation.roles) peak = std::max(peak, role.peak);
  PageText text;
  text.title = std::move(title);
  text.facts = {
      {"Step (makespan)", number(simulation.makespan), "From the first action of all roles to the last"},
      {"Longest role (span)", number(simulation.span),
       "The longest that a role takes from its first action to its last"},
      {"Bubble of the step", fmt::format("{:.2f} %", 100 * simulation.bubble_rate_makespan()),
       "What counts where all roles wait for the last"},
      {"Bubble of the span", fmt::format("{:.2f} %", 100 * simulation.bubble_rate()),
       "What counts where the next step may begin role by role"},
      {"Peak activations", number(peak), "Of one micro-batch through one role's layers, on the fullest role"}};
  text.roles = simulation.roles;
  for (RoleSimulation& role : text.roles) role.intervals.clear();
  return text;
}

std::string timeline_page(std::span<const Trace> traces, const PageText& text) {
  const std::string title = html_text(text.title);
  std::string page = fmt::format(
      "<!doctype html>\n<html lang=\"en-GB\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" "
      "content=\"width=device-width\">\n<title>{}</title>\n<style>\n",
      title);
  page += page_style();
  page += "</style>\n</head>\n<body>\n";
  page += fmt::format(fmt::runtime(page_body()), title);
  page += "\n<script id=\"data\" type=\"application/json\">";
  page += without_tags(dump_json(data_json(traces, text)));
  page += "</script>\n<script>\n";
  page += page_script();
  page += "</script>\n</body>\n</html>\n";
  return page;
}

}  // namespace weft::simulate
