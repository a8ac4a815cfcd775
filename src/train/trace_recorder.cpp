#include "train/trace_recorder.h"

#include <utility>

#include "comm/text.h"
#include "schedule/trace_event.h"

namespace weft::train {
namespace {

using schedule::Action;
using schedule::Op;

bool computes(Op op) {
  return op == Op::kForward || op == Op::kBackward || op == Op::kBackwardInput || op == Op::kBackwardWeight;
}

// The stage's action that a segment's is part of.
Action of_stage(Action action) {
  action.segment = -1;
  return action;
}

}  // namespace

TraceRecorder::TraceRecorder(comm::Communicator& world, int role) : world_(world), role_(role) {
  world.barrier("the traced step")->wait();
  start_ = std::chrono::steady_clock::now();
}

double TraceRecorder::now() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
}

void TraceRecorder::begin(size_t, const Action&) { begun_ = now(); }

void TraceRecorder::end(size_t, const Action& action) {
  const double ended = now();
  // Values that are freed and moved between the segments of a stage belong to it.
  const bool inside = action.op == Op::kFree || action.op == Op::kRedistribute;
  if (inside || (computes(action.op) && !events_.empty() && of_stage(action) == last_)) {
    if (!events_.empty()) events_.back().end = ended;
    return;
  }
  last_ = of_stage(action);
  events_.push_back(schedule::trace_event(last_, world_.rank(), role_, begun_, ended));
}

void TraceRecorder::write(const std::filesystem::path& path, const std::string& title) const {
  Trace trace;
  trace.title = title;
  trace.measured = true;
  trace.events = events_;
  const std::vector<std::string> all = comm::gather_texts(trace_json(trace), world_, "the trace");
  if (world_.rank() != 0) return;
  trace.events.clear();
  for (const std::string& text : all) {
    for (TraceEvent& event : parse_trace(text, "a rank's trace").events) trace.events.push_back(std::move(event));
  }
  write_trace(path, trace);
}

}  // namespace weft::train
