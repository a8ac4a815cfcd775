#include "schedule/action.h"

#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/check.h"

namespace weft::schedule {

std::string_view name(Op op) {
  switch (op) {
    case Op::kForward:
      return "forward";
    case Op::kBackward:
      return "backward";
    case Op::kBackwardInput:
      return "backward_input";
    case Op::kBackwardWeight:
      return "backward_weight";
    case Op::kRecompute:
      return "recompute";
    case Op::kSend:
      return "send";
    case Op::kReceive:
      return "receive";
    case Op::kUnshard:
      return "unshard";
    case Op::kReshard:
      return "reshard";
    case Op::kReduceGradient:
      return "reduce_gradient";
    case Op::kRedistribute:
      return "redistribute";
    case Op::kDispatch:
      return "dispatch";
    case Op::kCombine:
      return "combine";
    case Op::kReduce:
      return "reduce";
    case Op::kStep:
      return "step";
    case Op::kFree:
      return "free";
  }
  WEFT_CHECK(false);
}

std::string_view name(Purpose purpose) {
  switch (purpose) {
    case Purpose::kNone:
      return "none";
    case Purpose::kLoss:
      return "loss";
    case Purpose::kNorm:
      return "norm";
    case Purpose::kAmax:
      return "amax";
    case Purpose::kTied:
      return "tied";
    case Purpose::kOwners:
      return "owners";
  }
  WEFT_CHECK(false);
}

std::string text(const Action& action) {
  std::vector<std::string> arguments;
  const auto add = [&](std::string_view what, int32_t number) {
    if (number != -1) arguments.push_back(fmt::format("{} {}", what, number));
  };
  if (action.purpose != Purpose::kNone) arguments.emplace_back(name(action.purpose));
  add("stage", action.stage);
  add("segment", action.segment);
  add("micro-batch", action.micro_batch);
  add("slice", action.slice);
  add("peer", action.peer);
  add("value", action.value);
  add("bucket", action.bucket);
  if (action.direction == Direction::kBackward) arguments.emplace_back("gradient");
  return arguments.empty() ? std::string(name(action.op))
                           : fmt::format("{}({})", name(action.op), fmt::join(arguments, ", "));
}

}  // namespace weft::schedule
