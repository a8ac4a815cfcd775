#include "schedule/trace_event.h"

namespace weft::schedule {

static_assert(static_cast<int>(Stream::kTensor) == static_cast<int>(TraceStream::kTensor));

TraceEvent trace_event(const Action& action, int32_t rank, int32_t role, double begin, double end) {
  return {.rank = rank,
          .role = role,
          .stream = static_cast<TraceStream>(action.stream),
          .operation = std::string(name(action.op)),
          .stage = action.stage,
          .micro_batch = action.micro_batch,
          .action = text(action),
          .begin = begin,
          .end = end};
}

}  // namespace weft::schedule
