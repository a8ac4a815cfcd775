#include "schedule/validate_stages.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "schedule/computations.h"
#include "schedule/rendezvous.h"

namespace weft::schedule {
namespace {

// Ends the search for faults.
struct Found {
  Fault fault;
};

// What was seen of a stage and micro-batch, a bit each.
enum Seen : uint16_t {
  kForwardSeen = 1 << 0,
  kRecomputeSeen = 1 << 1,
  kInputSeen = 1 << 2,   // by Backward or BackwardInput
  kWeightSeen = 1 << 3,  // by Backward or BackwardWeight
  kSendSeen = 1 << 4,
  kSendGradientSeen = 1 << 5,
  kReceiveSeen = 1 << 6,
  kReceiveGradientSeen = 1 << 7,
  kWaitSeen = 1 << 8,
  kWaitGradientSeen = 1 << 9,
};

bool is_message(const Action& action) { return action.op == Op::kSend || action.op == Op::kReceive; }

bool moves_shards(Op op) { return op == Op::kUnshard || op == Op::kReshard || op == Op::kReduceGradient; }

Seen bit_of(const Action& action) {
  const bool forward = action.direction == Direction::kForward;
  if (action.op == Op::kReceive) return forward ? kReceiveSeen : kReceiveGradientSeen;
  if (action.part == Part::kWait) return forward ? kWaitSeen : kWaitGradientSeen;
  return forward ? kSendSeen : kSendGradientSeen;
}

class Walk {
 public:
  Walk(const Schedule& schedule, const Limits& limits) : schedule_(schedule), limits_(limits) { check_shape(); }

  void run() {
    seen_.assign(schedule_.stages.size() * static_cast<size_t>(schedule_.micro_batches), 0);
    weights_added_.assign(schedule_.stages.size(), 0);
    for (const RoleSchedule& role : schedule_.roles) {
      for (const Action& action : role.actions) {
        training_ |= action.op == Op::kBackward || action.op == Op::kBackwardInput || action.op == Op::kBackwardWeight;
        messages_ |= is_message(action);
        gathers_ |= action.op == Op::kUnshard;
        reduces_ |= action.op == Op::kReduceGradient;
      }
    }
    const auto trains = std::ranges::find_if(schedule_.stages, &Stage::trains);
    first_trained_ = static_cast<int32_t>(trains - schedule_.stages.begin());
    if (training_ && trains == schedule_.stages.end()) fail(-1, -1, "no stage trains, but there are backwards");
    for (size_t role = 0; role < schedule_.roles.size(); ++role) walk(static_cast<int32_t>(role));
    check_missing();
  }

 private:
  template <typename... Arguments>
  [[noreturn]] static void fail(int32_t role, int64_t action, fmt::format_string<Arguments...> format,
                                Arguments&&... arguments) {
    throw Found{{fmt::format(format, std::forward<Arguments>(arguments)...), role, action}};
  }
  template <typename... Arguments>
  [[noreturn]] void refuse(fmt::format_string<Arguments...> format, Arguments&&... arguments) const {
    const Action& now = schedule_.roles[static_cast<size_t>(role_)].actions[index_];
    fail(role_, static_cast<int64_t>(index_), "role {}, action {}: {}: {}", role_, index_, text(now),
         fmt::format(format, std::forward<Arguments>(arguments)...));
  }

  void check_shape() const {
    if (schedule_.micro_batches < 1) fail(-1, -1, "no micro-batches");
    if (schedule_.roles.empty() || schedule_.stages.empty()) fail(-1, -1, "no roles or no stages");
    for (size_t stage = 0; stage < schedule_.stages.size(); ++stage) {
      const int32_t role = schedule_.stages[stage].role;
      if (role >= 0 && std::cmp_less(role, schedule_.roles.size())) continue;
      fail(role, -1, "stage {} belongs to role {} of {}", stage, role, schedule_.roles.size());
    }
  }

  [[nodiscard]] uint16_t& seen(int32_t stage, int32_t micro_batch) {
    return seen_[static_cast<size_t>(stage) * static_cast<size_t>(schedule_.micro_batches) +
                 static_cast<size_t>(micro_batch)];
  }
  [[nodiscard]] const Stage& stage(int32_t index) const { return schedule_.stages[static_cast<size_t>(index)]; }
  [[nodiscard]] bool exists(int32_t index) const { return index >= 0 && std::cmp_less(index, schedule_.stages.size()); }
  [[nodiscard]] bool on_other_role(int32_t a, int32_t b) const { return stage(a).role != stage(b).role; }
  // A gradient of what the stage read is computed, and used by the stage before.
  [[nodiscard]] bool has_backward(int32_t index) const { return training_ && index >= first_trained_; }

  void walk(int32_t role) {
    role_ = role;
    whole_.clear();
    unreduced_.clear();
    activations_ = 0;
    const std::vector<Action>& actions = schedule_.roles[static_cast<size_t>(role)].actions;
    const auto owned = std::ranges::count(schedule_.stages, role, &Stage::role);
    share_ = owned == 0 ? 0 : 1.0 / static_cast<double>(owned);
    for (index_ = 0; index_ < actions.size(); ++index_) {
      check_fields(actions[index_]);
      check_partner(actions);
      visit(actions[index_]);
    }
    if (!unreduced_.empty()) {
      fail(role, -1, "role {}: gradients of stage {} are never reduced", role, unreduced_.front());
    }
    if (!whole_.empty()) fail(role, -1, "role {}: stage {} is never resharded", role, whole_.front());
  }

  void check_fields(const Action& action) const {
    const bool computes = is_computation(action.op);
    if (!computes && !is_message(action) && !moves_shards(action.op)) refuse("does not stand at the stage level");
    if (!exists(action.stage)) refuse("there is no such stage");
    if (stage(action.stage).role != role_) refuse("the stage belongs to role {}", stage(action.stage).role);
    if (moves_shards(action.op) ? action.micro_batch != -1
                                : action.micro_batch < 0 || action.micro_batch >= schedule_.micro_batches) {
      refuse("there is no such micro-batch");
    }
    if (action.segment != -1 || action.value != -1 || action.bucket != -1 || action.purpose != Purpose::kNone) {
      refuse("says what only the lowered level says");
    }
    if (action.part == Part::kStart || (action.part == Part::kWait && action.op != Op::kSend)) refuse("must be whole");
    if (is_message(action)) return check_ends(action);
    if (action.peer != -1 || action.direction != Direction::kForward) refuse("has neither peer nor direction");
  }

  // The two ends of a message.
  void check_ends(const Action& action) const {
    const bool up = (action.op == Op::kSend) == (action.direction == Direction::kForward);
    const int32_t other = up ? action.stage + 1 : action.stage - 1;
    if (!exists(other)) refuse("there is no stage {} at the other end", other);
    if (!on_other_role(action.stage, other)) refuse("stage {} belongs to the same role, which needs no message", other);
    if (stage(other).role != action.peer) refuse("stage {} belongs to role {}", other, stage(other).role);
    if (action.direction == Direction::kBackward && !has_backward(std::min(action.stage, other))) {
      refuse("no stage from {} on down trains", std::min(action.stage, other));
    }
  }

  void check_partner(const std::vector<Action>& actions) const {
    const Action& action = actions[index_];
    if (!action.paired) return;
    const bool ends = index_ + 1 == actions.size();
    const Action& next = actions[ends ? index_ : index_ + 1];
    if (ends || action.op != Op::kForward || !makes_gradient(next.op) || next.stage == action.stage || next.paired) {
      refuse("is paired with no backward of another stage");
    }
  }

  void visit(const Action& action) {
    switch (action.op) {
      case Op::kForward:
        return forward(action);
      case Op::kRecompute:
        return recompute(action);
      case Op::kBackward:
        backward_input(action);
        return backward_weight(action);
      case Op::kBackwardInput:
        return backward_input(action);
      case Op::kBackwardWeight:
        return backward_weight(action);
      case Op::kSend:
      case Op::kReceive:
        return message(action);
      case Op::kUnshard:
        return unshard(action.stage);
      case Op::kReshard:
        if (std::erase(whole_, action.stage) == 0) refuse("the stage is not whole");
        return;
      case Op::kReduceGradient:
        if (std::erase(unreduced_, action.stage) == 0) refuse("no gradient was added since the last reduction");
        return;
      default:
        refuse("does not stand at the stage level");
    }
  }

  void mark(const Action& action, uint16_t bit) {
    uint16_t& cell = seen(action.stage, action.micro_batch);
    if ((cell & bit) != 0) refuse("done before");
    cell |= bit;
  }
  void require(const Action& action, uint16_t bit, std::string_view what) {
    if ((seen(action.stage, action.micro_batch) & bit) == 0) refuse("comes before {}", what);
  }

  void forward(const Action& action) {
    mark(action, kForwardSeen);
    use(action);
    hold(share_);
    if (action.stage == 0) return;
    if (on_other_role(action.stage, action.stage - 1)) {
      if (messages_) require(action, kReceiveSeen, "the Receive of what it reads");
    } else if ((seen(action.stage - 1, action.micro_batch) & kForwardSeen) == 0) {
      refuse("comes before the forward of stage {}", action.stage - 1);
    }
  }

  void recompute(const Action& action) {
    require(action, kForwardSeen, "its forward");
    if ((seen(action.stage, action.micro_batch) & kInputSeen) != 0) refuse("comes after the backward");
    mark(action, kRecomputeSeen);
    use(action);
  }

  void backward_input(const Action& action) {
    if (!has_backward(action.stage)) refuse("no stage from {} on down trains", action.stage);
    require(action, kForwardSeen, "its forward");
    mark(action, kInputSeen);
    use(action);
    if (exists(action.stage + 1)) {
      if (on_other_role(action.stage, action.stage + 1)) {
        if (messages_) require(action, kReceiveGradientSeen, "the Receive of the gradient that it reads");
      } else if ((seen(action.stage + 1, action.micro_batch) & kInputSeen) == 0) {
        refuse("comes before the backward of stage {}", action.stage + 1);
      }
    }
    const bool weights_later = action.op == Op::kBackwardInput && stage(action.stage).trains;
    hold(weights_later ? (limits_.weight_share - 1) * share_ : -share_);
  }

  void backward_weight(const Action& action) {
    if (!stage(action.stage).trains) refuse("the stage's parameters are frozen");
    require(action, kInputSeen, "the backward for its input");
    mark(action, kWeightSeen);
    use(action);
    int32_t& added = weights_added_[static_cast<size_t>(action.stage)];
    if (action.micro_batch != added)
      refuse("weight gradients are added in ascending micro-batches; expected {}", added);
    ++added;
    if (action.op == Op::kBackwardWeight) hold(-limits_.weight_share * share_);
    if (reduces_ && std::ranges::find(unreduced_, action.stage) == unreduced_.end()) unreduced_.push_back(action.stage);
  }

  void message(const Action& action) {
    if (action.op == Op::kSend) {
      const bool gradient = action.direction == Direction::kBackward;
      if (action.part == Part::kWait) {
        require(action, gradient ? kSendGradientSeen : kSendSeen, "the Send that it waits for");
      } else {
        require(action, gradient ? kInputSeen : kForwardSeen, "what it sends is computed");
      }
    }
    mark(action, bit_of(action));
  }

  // A computation uses its stage's parameters.
  void use(const Action& action) const {
    if (gathers_ && std::ranges::find(whole_, action.stage) == whole_.end())
      refuse("stage {} is not whole", action.stage);
  }

  void unshard(int32_t index) {
    if (std::ranges::find(whole_, index) != whole_.end()) refuse("the stage is whole already");
    whole_.push_back(index);
    if (limits_.whole_stages > 0 && std::cmp_greater(whole_.size(), limits_.whole_stages)) {
      refuse("{} stages would be whole, at most {} may be", whole_.size(), limits_.whole_stages);
    }
  }

  void hold(double change) {
    activations_ += change;
    constexpr double kRounding = 1e-9;
    if (limits_.activations > 0 && activations_ > limits_.activations + kRounding) {
      refuse("holds {:.3f} activations, at most {:.3f} may be held", activations_, limits_.activations);
    }
  }

  // Of each stage and micro-batch what must be there and is not; what is there was judged where it stood.
  void check_missing() {
    for (int32_t index = 0; exists(index); ++index) {
      const bool sends = messages_ && exists(index + 1) && on_other_role(index, index + 1);
      const bool receives = messages_ && index > 0 && on_other_role(index, index - 1);
      uint16_t needed = kForwardSeen;
      if (has_backward(index)) needed |= kInputSeen;
      if (has_backward(index) && stage(index).trains) needed |= kWeightSeen;
      if (sends) needed |= kSendSeen;
      if (sends && has_backward(index)) needed |= kReceiveGradientSeen;
      if (receives) needed |= kReceiveSeen;
      if (receives && has_backward(index - 1)) needed |= kSendGradientSeen;
      for (int32_t micro_batch = 0; micro_batch < schedule_.micro_batches; ++micro_batch) {
        const uint16_t missing = needed & static_cast<uint16_t>(~seen(index, micro_batch));
        if (missing == 0) continue;
        const int32_t role = stage(index).role;
        fail(role, -1, "role {}: stage {}, micro-batch {}: {} is missing", role, index, micro_batch, name_of(missing));
      }
    }
  }

  static std::string_view name_of(uint16_t bits) {
    if ((bits & kForwardSeen) != 0) return "the forward";
    if ((bits & kInputSeen) != 0) return "the backward";
    if ((bits & kWeightSeen) != 0) return "the weight gradient";
    if ((bits & kSendSeen) != 0) return "the Send of its output";
    if ((bits & kReceiveSeen) != 0) return "the Receive of its input";
    if ((bits & kSendGradientSeen) != 0) return "the Send of its input's gradient";
    return "the Receive of its output's gradient";
  }

  const Schedule& schedule_;
  const Limits& limits_;
  bool training_ = false, messages_ = false, gathers_ = false, reduces_ = false;
  int32_t first_trained_ = 0;
  std::vector<uint16_t> seen_;          // by stage and micro-batch
  std::vector<int32_t> weights_added_;  // by stage
  // Of the role that is walked.
  int32_t role_ = 0;
  size_t index_ = 0;
  std::vector<int32_t> whole_, unreduced_;  // stages
  double activations_ = 0, share_ = 0;
};

// The waits that no role gets out of.
void check_progress(const Schedule& schedule) {
  const std::vector<Standstill> stuck = standstill(schedule);
  if (stuck.empty()) return;
  std::string reason = "roles wait for ever";
  for (const Standstill& each : stuck) {
    const Action& action = schedule.roles[static_cast<size_t>(each.role)].actions[each.action];
    reason += fmt::format("; role {} at action {}, {}", each.role, each.action, text(action));
  }
  throw Found{{reason, stuck.front().role, static_cast<int64_t>(stuck.front().action)}};
}

}  // namespace

std::optional<Fault> validate_stages(const Schedule& schedule, const Limits& limits) {
  try {
    Walk(schedule, limits).run();
    check_progress(schedule);
  } catch (const Found& found) {
    return found.fault;
  }
  return std::nullopt;
}

}  // namespace weft::schedule
