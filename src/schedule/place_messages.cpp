#include <algorithm>
#include <limits>
#include <tuple>

#include <fmt/format.h>

#include "base/check.h"
#include "base/error.h"
#include "schedule/computations.h"
#include "schedule/passes.h"
#include "schedule/rendezvous.h"
#include "schedule/timeline.h"

namespace weft::schedule {
namespace {

// Which messages a schedule needs, and how they look at both ends.
class Messages {
 public:
  explicit Messages(const Schedule& schedule) : schedule_(schedule), grid_(schedule) {
    for (const RoleSchedule& role : schedule.roles) {
      for (const Action& action : role.actions) {
        if (action.op != Op::kSend && action.op != Op::kReceive) continue;
        throw InputError(fmt::format("{} stands in the list already", text(action)));
      }
    }
  }

  [[nodiscard]] const ComputationGrid& grid() const { return grid_; }
  [[nodiscard]] size_t role_of(int32_t stage) const {
    return static_cast<size_t>(schedule_.stages[static_cast<size_t>(stage)].role);
  }

  // The stage that reads what a computation makes, where another role owns it; otherwise -1.
  [[nodiscard]] int32_t far_reader(const Action& action) const {
    int32_t reader = -1;
    if (action.op == Op::kForward) {
      reader = action.stage + 1;
      if (reader == static_cast<int32_t>(schedule_.stages.size())) return -1;
    } else if (makes_gradient(action.op) && action.stage > 0 && grid_.has_backward(action.stage - 1)) {
      reader = action.stage - 1;
    }
    return reader >= 0 && role_of(reader) != role_of(action.stage) ? reader : -1;
  }

  [[nodiscard]] Action send(const Action& maker, int32_t reader) const {
    return end(Op::kSend, maker, maker.stage, reader);
  }
  [[nodiscard]] Action receive(const Action& maker, int32_t reader) const {
    return end(Op::kReceive, maker, reader, maker.stage);
  }

 private:
  [[nodiscard]] Action end(Op op, const Action& maker, int32_t here, int32_t there) const {
    const bool forward = maker.op == Op::kForward;
    Action action;
    action.op = op;
    action.direction = forward ? Direction::kForward : Direction::kBackward;
    action.stream = forward ? Stream::kPipelineForward : Stream::kPipelineBackward;
    action.stage = here;
    action.micro_batch = maker.micro_batch;
    action.slice = maker.slice;
    action.peer = static_cast<int32_t>(role_of(there));
    return action;
  }

  const Schedule& schedule_;
  ComputationGrid grid_;
};

// Sweeps over the roles; each begins one action a sweep, and a message is put into both lists when it is sent. The
// actions of all roles stand in one order, in which each message's two ends are neighbours: nothing can wait for
// something behind it. The order of torch's _add_send_recv.
class SenderSweep {
 public:
  explicit SenderSweep(const Schedule& schedule)
      : schedule_(schedule), messages_(schedule), there_(2 * messages_.grid().size()), next_(schedule.roles.size()) {}

  Schedule place() {
    result_ = schedule_;
    for (size_t role = 0; role < next_.size(); ++role) {
      result_.roles[role].actions.clear();
      result_.roles[role].actions.reserve(2 * schedule_.roles[role].actions.size());
    }
    bool open = true;
    while (open) {
      open = false;
      bool moved = false;
      for (size_t role = 0; role < next_.size(); ++role) {
        if (next_[role] == schedule_.roles[role].actions.size()) continue;
        open = true;
        moved = begin_next(role) || moved;
      }
      if (open && !moved) throw InputError("the schedule hangs: no role can begin its next action");
    }
    return std::move(result_);
  }

 private:
  [[nodiscard]] bool is_ready(const Action& action) const {
    if (!is_computation(action.op)) return true;
    const ComputationGrid& grid = messages_.grid();
    const size_t cell = grid.cell(action);
    if (action.op == Op::kForward) return action.stage == 0 || there_[2 * (cell - grid.micro_batches())] != 0;
    if (!makes_gradient(action.op) || !grid.reads_gradient(action.stage)) return true;
    return there_[2 * (cell + grid.micro_batches()) + 1] != 0;
  }

  bool begin_next(size_t role) {
    const std::vector<Action>& actions = schedule_.roles[role].actions;
    const size_t first = next_[role], end = first + unit_length(actions, first);
    if (!std::all_of(actions.begin() + static_cast<ptrdiff_t>(first), actions.begin() + static_cast<ptrdiff_t>(end),
                     [&](const Action& action) { return is_ready(action); })) {
      return false;
    }
    std::vector<Action>& list = result_.roles[role].actions;
    list.insert(list.end(), actions.begin() + static_cast<ptrdiff_t>(first),
                actions.begin() + static_cast<ptrdiff_t>(end));
    for (size_t index = first; index < end; ++index) {
      const Action& action = actions[index];
      if (action.op != Op::kForward && !makes_gradient(action.op)) continue;
      there_[2 * messages_.grid().cell(action) + (action.op == Op::kForward ? 0 : 1)] = 1;
      const int32_t reader = messages_.far_reader(action);
      if (reader < 0) continue;
      list.push_back(messages_.send(action, reader));
      result_.roles[messages_.role_of(reader)].actions.push_back(messages_.receive(action, reader));
    }
    next_[role] = end;
    return true;
  }

  const Schedule& schedule_;
  Messages messages_;
  std::vector<char> there_;  // by cell and direction: made, and sent where its reader is far
  std::vector<size_t> next_;
  Schedule result_;
};

// Every message has a rank: when its maker ends, and where that is the same for several the lower stage first, so that
// two roles that send to each other at once agree on who is first. A role's messages of one direction stand in that
// order in its list. A message then waits only for lower ranks and for computations that ended before its maker did,
// or, where receives are late, for what run_rendezvous() finds.
class TimedPlacer {
 public:
  TimedPlacer(const Schedule& schedule, const Times& times)
      : schedule_(schedule),
        messages_(schedule),
        ranks_(2 * messages_.grid().size()),
        readers_(2 * messages_.grid().size()),
        incoming_(schedule.roles.size()) {
    const size_t chunks = std::max<size_t>(1, schedule.stages.size() / std::max<size_t>(1, schedule.roles.size()));
    std::optional<Timeline> when = timeline(schedule, durations(times, {}, schedule.stages.size(), chunks));
    if (!when) throw InputError("the schedule hangs: no role can begin its next action");
    ends_ = std::move(when->ends);
    rank_messages();
  }

  Schedule place(bool late) {
    Schedule placed = schedule_;
    for (size_t role = 0; role < schedule_.roles.size(); ++role) placed.roles[role].actions = merge(role, late);
    if (!late) return placed;
    std::optional<Schedule> helped = run_rendezvous(placed, ranks_);
    WEFT_CHECK(helped.has_value());
    return std::move(*helped);
  }

 private:
  struct Message {
    double end = 0;  // of its maker
    size_t number = 0;
    Action receive;
    size_t slot = 0;  // in the receiver's list: 2 i before its action i, 2 i + 1 between that and what it sends
  };

  [[nodiscard]] size_t number_of(const Action& maker) const {
    return 2 * messages_.grid().cell(maker) + (maker.op == Op::kForward ? 0 : 1);
  }

  void rank_messages() {
    std::vector<std::pair<double, size_t>> all;
    for (size_t role = 0; role < schedule_.roles.size(); ++role) {
      const std::vector<Action>& actions = schedule_.roles[role].actions;
      for (size_t index = 0; index < actions.size(); ++index) {
        const Action& action = actions[index];
        note_reader(action, index > 0 && actions[index - 1].paired ? index - 1 : index);
        const int32_t reader = messages_.far_reader(action);
        if (reader < 0) continue;
        const double end = ends_[role][index];
        all.emplace_back(end, number_of(action));
        incoming_[messages_.role_of(reader)].push_back({end, number_of(action), messages_.receive(action, reader)});
      }
    }
    std::ranges::sort(all);  // the number grows with the stage
    for (size_t rank = 0; rank < all.size(); ++rank) ranks_[all[rank].second] = static_cast<double>(rank);
    for (std::vector<Message>& messages : incoming_) {
      std::ranges::sort(messages, {}, [&](const Message& message) { return ranks_[message.number]; });
    }
  }

  void note_reader(const Action& action, size_t index) {
    const ComputationGrid& grid = messages_.grid();
    if (action.op == Op::kForward && action.stage > 0) {
      readers_[2 * (grid.cell(action) - grid.micro_batches())] = index;
    } else if (makes_gradient(action.op) && grid.reads_gradient(action.stage)) {
      readers_[2 * (grid.cell(action) + grid.micro_batches()) + 1] = index;
    }
  }

  // In front of the first action that ends when the message is sent, or later; behind what this action itself sends in
  // the same direction, where that ranks lower.
  void slots_by_time(size_t role) {
    const std::vector<Action>& actions = schedule_.roles[role].actions;
    size_t first = 0;
    for (Message& message : incoming_[role]) {
      while (first < actions.size() && is_before(role, first, message)) first += unit_length(actions, first);
      message.slot = 2 * first;
    }
  }

  [[nodiscard]] bool is_before(size_t role, size_t index, const Message& message) const {
    const std::vector<Action>& actions = schedule_.roles[role].actions;
    const double end = ends_[role][index];
    if (end != message.end) return end < message.end;
    for (size_t part = index; part < index + unit_length(actions, index); ++part) {
      if (is_lower_send(role, part, message)) return true;
    }
    return false;
  }

  // In front of the reader, but not behind a message of the same direction that ranks higher.
  void slots_by_reader(size_t role) {
    const std::vector<Action>& actions = schedule_.roles[role].actions;
    for (const Direction direction : {Direction::kForward, Direction::kBackward}) {
      size_t limit = std::numeric_limits<size_t>::max(), below = actions.size();
      for (size_t i = incoming_[role].size(); i-- > 0;) {
        Message& message = incoming_[role][i];
        if (message.receive.direction != direction) continue;
        while (below > 0 && !is_lower_send(role, below - 1, message)) {
          --below;
          if (sends(actions[below], direction)) limit = std::min(limit, 2 * last_of_unit(actions, below) + 1);
        }
        limit = std::min(limit, 2 * readers_[message.number]);
        message.slot = limit;
      }
    }
    std::ranges::stable_sort(incoming_[role], {}, &Message::slot);
  }

  [[nodiscard]] bool sends(const Action& action, Direction direction) const {
    return (action.op == Op::kForward) == (direction == Direction::kForward) && messages_.far_reader(action) >= 0;
  }

  // Whether action `index` sends in the message's direction what ranks lower.
  [[nodiscard]] bool is_lower_send(size_t role, size_t index, const Message& message) const {
    const Action& action = schedule_.roles[role].actions[index];
    return sends(action, message.receive.direction) && ranks_[number_of(action)] < ranks_[message.number];
  }

  static size_t last_of_unit(const std::vector<Action>& actions, size_t index) {
    return actions[index].paired ? index + 1 : index;
  }

  std::vector<Action> merge(size_t role, bool late) {
    late ? slots_by_reader(role) : slots_by_time(role);
    const std::vector<Action>& actions = schedule_.roles[role].actions;
    std::vector<Action> result;
    result.reserve(actions.size() * 2);
    size_t next = 0;
    const auto receive_until = [&](size_t slot) {
      for (; next < incoming_[role].size() && incoming_[role][next].slot <= slot; ++next) {
        result.push_back(incoming_[role][next].receive);
      }
    };
    for (size_t first = 0; first < actions.size();) {
      const size_t end = first + unit_length(actions, first);
      receive_until(2 * first);
      for (size_t index = first; index < end; ++index) result.push_back(actions[index]);
      receive_until(2 * (end - 1) + 1);
      for (; first < end; ++first) {
        const int32_t reader = messages_.far_reader(actions[first]);
        if (reader >= 0) result.push_back(messages_.send(actions[first], reader));
      }
    }
    WEFT_CHECK(next == incoming_[role].size());
    return result;
  }

  const Schedule& schedule_;
  Messages messages_;
  std::vector<std::vector<double>> ends_;
  std::vector<double> ranks_;    // by number of a message
  std::vector<size_t> readers_;  // likewise: index of the reader (or of its pair's first) in its role's list
  std::vector<std::vector<Message>> incoming_;  // by role
};

}  // namespace

Schedule place_messages(const Schedule& schedule, MessagePlace place, const Times& times) {
  if (place == MessagePlace::kSender) return SenderSweep(schedule).place();
  return TimedPlacer(schedule, times).place(place == MessagePlace::kLate);
}

}  // namespace weft::schedule
