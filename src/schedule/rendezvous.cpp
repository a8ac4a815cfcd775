#include "schedule/rendezvous.h"

#include <array>
#include <deque>
#include <utility>

#include "schedule/computations.h"

namespace weft::schedule {
namespace {

class Rendezvous {
 public:
  Rendezvous(const Schedule& schedule, const std::vector<double>& order)
      : schedule_(schedule),
        order_(order),
        grid_(schedule),
        roles_(schedule.roles.size()),
        messages_(2 * grid_.size()),
        computed_(2 * grid_.size()) {
    for (const RoleSchedule& role : schedule.roles) {
      for (const Action& action : role.actions) {
        if (action.op == Op::kSend && action.part != Part::kWait) messages_[message_of(action)].expected = true;
      }
    }
  }

  std::optional<Schedule> run() {
    run_through();
    Schedule result = schedule_;
    for (size_t role = 0; role < roles_.size(); ++role) {
      if (!has_ended(role)) return std::nullopt;
      result.roles[role].actions = std::move(roles_[role].done);
    }
    return result;
  }

  std::vector<Standstill> standstill() {
    run_through();
    std::vector<Standstill> stuck;
    for (size_t role = 0; role < roles_.size(); ++role) {
      if (has_ended(role)) continue;
      const std::vector<Action>& actions = schedule_.roles[role].actions;
      if (roles_[role].next < actions.size()) {
        stuck.push_back({static_cast<int32_t>(role), roles_[role].next});
        continue;
      }
      // All was begun: the first message that did not end.
      for (size_t index = 0; index < actions.size(); ++index) {
        const bool begins =
            actions[index].op == Op::kReceive || (actions[index].op == Op::kSend && actions[index].part != Part::kWait);
        if (!begins || messages_[message_of(actions[index])].ended) continue;
        stuck.push_back({static_cast<int32_t>(role), index});
        break;
      }
    }
    return stuck;
  }

 private:
  void run_through() {
    for (size_t role = roles_.size(); role-- > 0;) wake(role);
    do {
      while (!awake_.empty()) {
        const size_t role = awake_.back();
        awake_.pop_back();
        roles_[role].awake = false;
        advance(role);
      }
    } while (help());
  }

  [[nodiscard]] bool has_ended(size_t role) const {
    return roles_[role].next == schedule_.roles[role].actions.size() && roles_[role].queues[0].empty() &&
           roles_[role].queues[1].empty();
  }

  struct Role {
    size_t next = 0;
    bool awake = false;
    std::array<std::deque<size_t>, 2> queues;  // messages begun and not ended, by direction
    std::vector<Action> done;
  };
  struct Message {
    int32_t sender = -1, receiver = -1;  // roles that have begun it
    bool expected = false, ended = false;
  };

  static size_t index_of(Direction direction) { return direction == Direction::kForward ? 0 : 1; }

  // By what is sent: the stage and micro-batch of its maker.
  [[nodiscard]] size_t message_of(const Action& action) const {
    const bool forward = action.direction == Direction::kForward;
    Action maker = action;
    if (action.op == Op::kReceive) maker.stage += forward ? -1 : 1;
    return 2 * grid_.cell(maker) + index_of(action.direction);
  }

  void wake(size_t role) {
    if (std::exchange(roles_[role].awake, true)) return;
    awake_.push_back(role);
  }

  [[nodiscard]] bool is_there(size_t message) const {
    return messages_[message].expected ? messages_[message].ended : computed_[message] != 0;
  }

  [[nodiscard]] bool may_begin(const Action& action) const {
    if (action.op == Op::kSend) {
      return action.part == Part::kWait ? messages_[message_of(action)].ended : computed_[message_of(action)] != 0;
    }
    if (!is_computation(action.op)) return true;
    const size_t cell = grid_.cell(action);
    if (action.op == Op::kForward) {
      return action.stage == 0 || is_there(2 * (cell - grid_.micro_batches()));
    }
    if (action.op == Op::kBackwardWeight) return computed_[2 * cell + 1] != 0;
    if (computed_[2 * cell] == 0) return false;
    if (action.op == Op::kRecompute || !grid_.reads_gradient(action.stage)) return true;
    return is_there(2 * (cell + grid_.micro_batches()) + 1);
  }

  void compute(const Action& action) {
    const bool forward = action.op == Op::kForward;
    if (!forward && !makes_gradient(action.op)) return;
    computed_[2 * grid_.cell(action) + (forward ? 0 : 1)] = 1;
    const int32_t reader = action.stage + (forward ? 1 : -1);
    if (reader < 0 || reader >= static_cast<int32_t>(schedule_.stages.size())) return;
    wake(static_cast<size_t>(schedule_.stages[static_cast<size_t>(reader)].role));
  }

  void begin_message(const Action& action, size_t role) {
    const size_t number = message_of(action);
    Message& message = messages_[number];
    int32_t& end = action.op == Op::kSend ? message.sender : message.receiver;
    if (end != -1) return;  // helped before
    end = static_cast<int32_t>(role);
    roles_[role].queues[index_of(action.direction)].push_back(number);
    roles_[role].done.push_back(action);
    end_messages(role, index_of(action.direction));
  }

  // Ends every message that stands first at both its ends, beginning with this queue.
  void end_messages(size_t role, size_t direction) {
    std::vector<size_t> open = {role};
    while (!open.empty()) {
      const size_t here = open.back();
      open.pop_back();
      std::deque<size_t>& queue = roles_[here].queues[direction];
      if (queue.empty()) continue;
      Message& message = messages_[queue.front()];
      if (message.sender < 0 || message.receiver < 0) continue;
      const size_t there = static_cast<size_t>(message.sender) == here ? static_cast<size_t>(message.receiver)
                                                                       : static_cast<size_t>(message.sender);
      std::deque<size_t>& other = roles_[there].queues[direction];
      if (other.empty() || other.front() != queue.front()) continue;
      message.ended = true;
      queue.pop_front();
      other.pop_front();
      wake(here);
      wake(there);
      open.push_back(here);
      open.push_back(there);
    }
  }

  void advance(size_t role) {
    const std::vector<Action>& actions = schedule_.roles[role].actions;
    size_t& next = roles_[role].next;
    while (next < actions.size()) {
      const size_t end = next + unit_length(actions, next);
      for (size_t index = next; index < end; ++index) {
        if (!may_begin(actions[index])) return;
      }
      for (; next < end; ++next) {
        const Action& action = actions[next];
        const bool begins_message = (action.op == Op::kSend && action.part != Part::kWait) || action.op == Op::kReceive;
        if (begins_message) {
          begin_message(action, role);
        } else {
          if (is_computation(action.op)) compute(action);
          roles_[role].done.push_back(action);
        }
      }
    }
  }

  // Nothing moves: posts the receive of the first send that waits for one.
  bool help() {
    if (order_.empty()) return false;
    size_t first = messages_.size();
    for (const Role& role : roles_) {
      for (const std::deque<size_t>& queue : role.queues) {
        if (queue.empty()) continue;
        const size_t number = queue.front();
        if (messages_[number].receiver != -1) continue;
        if (first == messages_.size() || order_[number] < order_[first]) first = number;
      }
    }
    if (first == messages_.size()) return false;
    const bool forward = first % 2 == 0;
    Action receive;
    receive.op = Op::kReceive;
    receive.direction = forward ? Direction::kForward : Direction::kBackward;
    receive.stream = forward ? Stream::kPipelineForward : Stream::kPipelineBackward;
    receive.stage = static_cast<int32_t>(first / 2 / grid_.micro_batches()) + (forward ? 1 : -1);
    receive.micro_batch = static_cast<int32_t>(first / 2 % grid_.micro_batches());
    receive.peer = messages_[first].sender;
    const int32_t reader = schedule_.stages[static_cast<size_t>(receive.stage)].role;
    begin_message(receive, static_cast<size_t>(reader));
    return true;
  }

  const Schedule& schedule_;
  const std::vector<double>& order_;
  ComputationGrid grid_;
  std::vector<Role> roles_;
  std::vector<Message> messages_;  // by cell and direction of the maker
  std::vector<char> computed_;     // likewise
  std::vector<size_t> awake_;
};

}  // namespace

std::optional<Schedule> run_rendezvous(const Schedule& schedule, const std::vector<double>& order) {
  return Rendezvous(schedule, order).run();
}

std::vector<Standstill> standstill(const Schedule& schedule) { return Rendezvous(schedule, {}).standstill(); }

}  // namespace weft::schedule
