#include "simulate/predicted_trace.h"

#include "schedule/trace_event.h"

namespace weft::simulate {

using schedule::Action;
using schedule::Op;

Trace predicted_trace(const schedule::Schedule& schedule, const Costs& costs, const Simulation& simulation,
                      std::string title) {
  Trace trace;
  trace.title = std::move(title);
  for (size_t role = 0; role < schedule.roles.size(); ++role) {
    const std::vector<Action>& actions = schedule.roles[role].actions;
    const int32_t number = static_cast<int32_t>(role);
    for (size_t index = 0; index < actions.size(); ++index) {
      const Action& action = actions[index];
      if (action.op == Op::kReshard || action.op == Op::kReceive || action.part == schedule::Part::kWait) continue;
      const Interval interval = simulation.roles[role].intervals[index];
      trace.events.push_back(schedule::trace_event(action, number, number, interval.begin, interval.end));
    }
    TraceCurve& curve = trace.curves.emplace_back(TraceCurve{number, "activations", {}});
    for (const MemoryPoint& point : memory_curve(schedule, costs, simulation, role)) {
      curve.points.push_back({point.time, point.held});
    }
  }
  return trace;
}

}  // namespace weft::simulate
