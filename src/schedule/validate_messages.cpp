#include "schedule/validate_messages.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <vector>

#include <fmt/format.h>

#include "schedule/invalid.h"

namespace weft::schedule {
namespace {

bool is_message(const Action& action) { return action.op == Op::kSend || action.op == Op::kReceive; }

// Reductions that several roles must reach together.
bool meets_others(const Action& action) { return action.op == Op::kReduce; }

// What passes between two ends of a message, the same at both.
struct Message {
  int32_t reading_stage, micro_batch, value;
  friend bool operator==(const Message&, const Message&) = default;
};

Message message_of(const Action& action) {
  const int32_t step = action.direction == Direction::kForward ? 1 : -1;
  return {action.op == Op::kSend ? action.stage + step : action.stage, action.micro_batch, action.value};
}

// Messages from one role to another in one direction.
using Channel = std::tuple<int32_t, int32_t, Direction>;

Channel channel_of(const Action& action, int32_t role) {
  return action.op == Op::kSend ? Channel{role, action.peer, action.direction}
                                : Channel{action.peer, role, action.direction};
}

struct Place {
  int32_t role;
  size_t index;
};

class Exchange {
 public:
  explicit Exchange(const Schedule& schedule) : schedule_(schedule), next_(schedule.roles.size(), 0) {
    started_.resize(schedule.roles.size());
    for (size_t role = 0; role < schedule.roles.size(); ++role) {
      started_[role].resize(schedule.roles[role].actions.size(), 0);
      collect(static_cast<int32_t>(role));
    }
    for (const auto& [channel, sends] : sends_) compare(channel, sends, receives_[channel]);
    for (const auto& [channel, receives] : receives_) compare(channel, sends_[channel], receives);
  }

  // Every role as far as it gets, until none gets further.
  void run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (int32_t role = 0; role < static_cast<int64_t>(next_.size()); ++role) {
        while (at(role) != nullptr && passes(role)) {
          ++next_[static_cast<size_t>(role)];
          moved = true;
        }
      }
      moved |= pass_together();
    }
    std::string stuck;
    for (int32_t role = 0; role < static_cast<int64_t>(next_.size()); ++role) {
      if (at(role) != nullptr) stuck += fmt::format("; role {} in {}", role, text(*at(role)));
    }
    if (!stuck.empty()) fail("roles would wait for ever{}", stuck);
  }

 private:
  [[nodiscard]] const Action* at(int32_t role) const {
    const auto& actions = schedule_.roles[static_cast<size_t>(role)].actions;
    const size_t index = next_[static_cast<size_t>(role)];
    return index < actions.size() ? &actions[index] : nullptr;
  }

  // Gives each start its number in its channel, and each wait the place of its start.
  void collect(int32_t role) {
    const auto& actions = schedule_.roles[static_cast<size_t>(role)].actions;
    std::map<std::tuple<Op, Direction, int32_t, int32_t, int32_t>, size_t> open;
    for (size_t index = 0; index < actions.size(); ++index) {
      const Action& action = actions[index];
      if (!is_message(action)) continue;
      const auto refuse = [&](std::string_view reason) {
        fail("role {}, action {}: {}: {}", role, index, text(action), reason);
      };
      check_ends(action, role, refuse);
      const std::tuple key{action.op, action.direction, action.stage, action.micro_batch, action.value};
      auto& ends = action.op == Op::kSend ? sends_[channel_of(action, role)] : receives_[channel_of(action, role)];
      if (action.part == Part::kStart) {
        if (!open.emplace(key, ends.size()).second) refuse("started before");
        ends.push_back({role, index});
        continue;
      }
      const auto start = open.find(key);
      if (start == open.end()) refuse("waits for what was not started");
      if (start->second == kDone) refuse("waited for before");
      started_[static_cast<size_t>(role)][index] = start->second;
      start->second = kDone;
    }
    for (const auto& [key, number] : open) {
      if (number != kDone) fail("role {}: a message of micro-batch {} is never waited for", role, std::get<3>(key));
    }
  }

  template <typename Refuse>
  void check_ends(const Action& action, int32_t role, const Refuse& refuse) const {
    const auto stages = static_cast<int64_t>(schedule_.stages.size());
    const bool up = (action.op == Op::kSend) == (action.direction == Direction::kForward);
    const int32_t other = up ? action.stage + 1 : action.stage - 1;
    if (schedule_.stages[static_cast<size_t>(action.stage)].role != role) refuse("the stage belongs to another role");
    if (other < 0 || other >= stages) refuse("there is no stage at the other end");
    if (schedule_.stages[static_cast<size_t>(other)].role != action.peer) refuse("the other stage is not the peer's");
    if (action.peer == role) refuse("a role sends itself nothing");
  }

  void compare(const Channel& channel, const std::vector<Place>& sends, const std::vector<Place>& receives) const {
    for (size_t i = 0; i < std::max(sends.size(), receives.size()); ++i) {
      const auto& [from, to, direction] = channel;
      const auto name = [&](const std::vector<Place>& ends) {
        return i < ends.size() ? text(action(ends[i])) : std::string("nothing");
      };
      if (i < sends.size() && i < receives.size() && message_of(action(sends[i])) == message_of(action(receives[i]))) {
        continue;
      }
      fail("message {} from role {} to role {}{}: {} meets {}", i, from, to,
           direction == Direction::kForward ? "" : " (gradients)", name(sends), name(receives));
    }
  }

  [[nodiscard]] const Action& action(const Place& place) const {
    return schedule_.roles[static_cast<size_t>(place.role)].actions[place.index];
  }
  [[nodiscard]] bool reached(const Place& place) const { return next_[static_cast<size_t>(place.role)] > place.index; }

  // Whether a role gets past where it stands, alone. A message has passed when both ends have started it.
  [[nodiscard]] bool passes(int32_t role) const {
    const Action& now = *at(role);
    if (meets_others(now)) return false;
    if (!is_message(now) || now.part == Part::kStart) return true;
    const size_t number = started_[static_cast<size_t>(role)][next_[static_cast<size_t>(role)]];
    const Channel channel = channel_of(now, role);
    const auto& other = now.op == Op::kSend ? receives_.at(channel) : sends_.at(channel);
    return reached(other[number]);
  }

  bool pass_together() {
    // A borrowed bucket: its two roles.
    for (int32_t role = 0; role < static_cast<int64_t>(next_.size()); ++role) {
      const Action* mine = at(role);
      if (mine == nullptr || !meets_others(*mine) || mine->purpose != Purpose::kTied) continue;
      if (mine->peer < 0 || mine->peer >= static_cast<int64_t>(next_.size())) fail("no such role: {}", text(*mine));
      const Action* theirs = at(mine->peer);
      if (theirs == nullptr || theirs->op != Op::kReduce || theirs->purpose != Purpose::kTied) continue;
      if (theirs->peer != role || theirs->bucket != mine->bucket || theirs->direction != mine->direction) continue;
      ++next_[static_cast<size_t>(role)];
      ++next_[static_cast<size_t>(mine->peer)];
      return true;
    }
    // Loss and norm: all roles.
    const Action* first = at(0);
    if (first == nullptr || !meets_others(*first) || first->purpose == Purpose::kTied) return false;
    for (int32_t role = 0; role < static_cast<int64_t>(next_.size()); ++role) {
      if (at(role) == nullptr || at(role)->op != Op::kReduce || at(role)->purpose != first->purpose) return false;
    }
    for (size_t& next : next_) ++next;
    return true;
  }

  static constexpr size_t kDone = static_cast<size_t>(-1);

  const Schedule& schedule_;
  std::vector<size_t> next_;                  // by role: the action it stands at
  std::vector<std::vector<size_t>> started_;  // by role and action, of waits: the message's number in its channel
  std::map<Channel, std::vector<Place>> sends_, receives_;
};

}  // namespace

void validate_messages(const Schedule& schedule) { Exchange(schedule).run(); }

}  // namespace weft::schedule
