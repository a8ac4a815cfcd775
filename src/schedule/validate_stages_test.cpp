#include "schedule/validate_stages.h"

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "base/philox.h"
#include "schedule/generate.h"
#include "schedule/passes.h"
#include "schedule/text_form.h"

namespace weft::schedule {
namespace {

// A judge that knows nothing of the validator: runs the lists over a transport whose sends end only when their receives
// are posted, in order on each role's stream of a direction, with symbols for tensors. Whatever is made must be used
// exactly once. What it ends with is, of each stage, the contributions to its gradient in order, and the losses.
class Transport {
 public:
  using Gradients = std::vector<std::vector<std::string>>;

  explicit Transport(const Schedule& schedule) : schedule_(schedule), next_(schedule.roles.size(), 0) {
    streams_.resize(schedule.roles.size());
    gradients_.resize(schedule.stages.size());
    whole_.resize(schedule.stages.size());
    unreduced_.resize(schedule.stages.size());
    for (const RoleSchedule& role : schedule.roles) {
      for (const Action& action : role.actions) {
        messages_ |= action.op == Op::kSend || action.op == Op::kReceive;
        gathers_ |= action.op == Op::kUnshard;
        reduces_ |= action.op == Op::kReduceGradient;
      }
    }
  }

  // Nothing: it hangs, misorders, reads what is not there, or leaves something over.
  std::optional<Gradients> run() {
    for (bool moved = true; moved && sound_;) {
      moved = false;
      for (size_t role = 0; role < next_.size() && sound_; ++role) {
        const std::vector<Action>& actions = schedule_.roles[role].actions;
        while (sound_ && next_[role] < actions.size() && step(role, actions[next_[role]])) {
          ++next_[role];
          moved = true;
        }
      }
      while (transfer()) moved = true;
    }
    if (!sound_) return std::nullopt;
    for (size_t role = 0; role < next_.size(); ++role) {
      if (next_[role] < schedule_.roles[role].actions.size()) return std::nullopt;
      for (const auto& stream : streams_[role]) {
        if (!stream.empty()) return std::nullopt;
      }
    }
    // Evaluations keep nothing, so only what a backward should have used counts.
    const auto left = [&](const auto& things) { return trains() && !things.empty(); };
    if (left(saved_) || left(queued_) || left(arrived_) || left(outputs_) || left(gradients_out_)) {
      return std::nullopt;
    }
    for (size_t stage = 0; stage < schedule_.stages.size(); ++stage) {
      if (whole_[stage] || (reduces_ && unreduced_[stage])) return std::nullopt;
    }
    gradients_.emplace_back(losses_.begin(), losses_.end());
    return gradients_;
  }

 private:
  using Cell = std::pair<int32_t, int32_t>;  // stage, micro-batch
  struct Message {
    bool send;
    int32_t peer;
    Cell cell;  // of the reading stage
    Direction direction;
    std::string tensor;
  };

  [[nodiscard]] bool trains() const {
    for (const std::vector<std::string>& each : gradients_) {
      if (!each.empty()) return true;
    }
    return false;
  }
  [[nodiscard]] int32_t role_of(int32_t stage) const { return schedule_.stages[static_cast<size_t>(stage)].role; }
  [[nodiscard]] bool last(int32_t stage) const { return stage + 1 == static_cast<int32_t>(schedule_.stages.size()); }
  [[nodiscard]] int32_t first_trained() const {
    int32_t stage = 0;
    while (!schedule_.stages[static_cast<size_t>(stage)].trains) ++stage;
    return stage;
  }
  bool unsound() {
    sound_ = false;
    return false;
  }

  // Takes a thing; empty where it is not there.
  template <typename Key>
  static std::string take(std::map<Key, std::string>& things, const Key& key) {
    const auto found = things.find(key);
    if (found == things.end()) return "";
    std::string thing = std::move(found->second);
    things.erase(found);
    return thing;
  }
  template <typename Key>
  void make(std::map<Key, std::string>& things, const Key& key, std::string thing) {
    if (!things.emplace(key, std::move(thing)).second) sound_ = false;
  }

  bool step(size_t role, const Action& action) {
    if (action.stage < 0 || action.stage >= static_cast<int32_t>(schedule_.stages.size())) return unsound();
    if (role_of(action.stage) != static_cast<int32_t>(role)) return unsound();
    const Cell cell{action.stage, action.micro_batch};
    const auto stage = static_cast<size_t>(action.stage);
    const bool shards = action.op == Op::kUnshard || action.op == Op::kReshard || action.op == Op::kReduceGradient;
    if (shards != (action.micro_batch == -1) || action.micro_batch >= schedule_.micro_batches ||
        action.micro_batch < -1) {
      return unsound();
    }
    switch (action.op) {
      case Op::kForward:
        return forward(cell) && used(stage);
      case Op::kBackward:
      case Op::kBackwardInput:
        return backward(cell, action.op == Op::kBackward) && used(stage);
      case Op::kBackwardWeight: {
        const std::string gradient = take(queued_, cell);
        if (gradient.empty()) return false;
        contribute(stage, gradient);
        return used(stage);
      }
      case Op::kSend:
      case Op::kReceive:
        return post(role, action);
      case Op::kUnshard:
        if (whole_[stage]) return unsound();
        whole_[stage] = true;
        return true;
      case Op::kReshard:
        if (!whole_[stage]) return unsound();
        whole_[stage] = false;
        return true;
      case Op::kReduceGradient:
        if (!unreduced_[stage]) return unsound();
        unreduced_[stage] = false;
        return true;
      default:
        return unsound();
    }
  }

  bool used(size_t stage) { return !gathers_ || whole_[stage] || unsound(); }

  void contribute(size_t stage, std::string gradient) {
    gradients_[stage].push_back(std::move(gradient));
    unreduced_[stage] = true;
    if (!schedule_.stages[stage].trains) sound_ = false;
  }

  bool forward(const Cell& cell) {
    const auto& [stage, micro_batch] = cell;
    std::string input = "x" + std::to_string(micro_batch);
    if (stage > 0) {
      const bool other = role_of(stage - 1) != role_of(stage) && messages_;
      input = other ? take(arrived_, {cell, Direction::kForward}) : take(outputs_, Cell{stage - 1, micro_batch});
      if (input.empty()) return false;
    }
    const std::string output = "f" + std::to_string(stage) + "(" + input + ")";
    if (stage >= first_trained()) make(saved_, cell, input);
    make(outputs_, cell, output);
    if (last(stage)) losses_.insert(take(outputs_, cell));
    return true;
  }

  bool backward(const Cell& cell, bool weights) {
    const auto& [stage, micro_batch] = cell;
    if (stage < first_trained()) return unsound();
    if (!saved_.contains(cell)) return false;
    std::string gradient = "1";
    if (!last(stage)) {
      const bool other = role_of(stage + 1) != role_of(stage) && messages_;
      gradient =
          other ? take(arrived_, {cell, Direction::kBackward}) : take(gradients_out_, Cell{stage + 1, micro_batch});
      if (gradient.empty()) return false;
    }
    const std::string saved = take(saved_, cell);
    const std::string own = "w(" + saved + "," + gradient + ")";
    if (weights) {
      contribute(static_cast<size_t>(stage), own);
    } else if (schedule_.stages[static_cast<size_t>(stage)].trains) {
      make(queued_, cell, own);
    }
    if (stage > first_trained()) make(gradients_out_, cell, "b" + std::to_string(stage) + "(" + gradient + ")");
    return true;
  }

  bool post(size_t role, const Action& action) {
    const bool forward = action.direction == Direction::kForward;
    if (action.part == Part::kWait) {
      const std::string key = sent_key(action);
      if (action.op != Op::kSend || waited_[key] > 0) return unsound();
      if (!ended_.contains(key)) return false;
      ++waited_[key];
      return true;
    }
    Message message{action.op == Op::kSend, action.peer, {action.stage, action.micro_batch}, action.direction, ""};
    if (message.send) {
      message.tensor = forward ? take(outputs_, message.cell) : take(gradients_out_, message.cell);
      if (message.tensor.empty()) return false;
      message.cell.first += forward ? 1 : -1;
    }
    streams_[role][forward ? 0 : 1].push_back(message);
    return true;
  }

  static std::string sent_key(const Action& action) {
    return key_of(action.stage, action.direction, action.micro_batch, action.peer);
  }
  static std::string key_of(int32_t stage, Direction direction, int32_t micro_batch, int32_t peer) {
    return std::to_string(stage) + (direction == Direction::kForward ? "f" : "b") + std::to_string(micro_batch) +
           " to " + std::to_string(peer);
  }

  // One message that stands first at both its ends.
  bool transfer() {
    for (size_t here = 0; here < streams_.size(); ++here) {
      for (size_t direction = 0; direction < 2; ++direction) {
        auto& stream = streams_[here][direction];
        if (stream.empty() || !stream.front().send) continue;
        const Message sent = stream.front();
        if (sent.peer < 0 || sent.peer >= static_cast<int32_t>(streams_.size())) return unsound();
        auto& other = streams_[static_cast<size_t>(sent.peer)][direction];
        if (other.empty() || other.front().send || other.front().peer != static_cast<int32_t>(here)) continue;
        if (other.front().cell != sent.cell) return unsound();
        make(arrived_, {sent.cell, sent.direction}, sent.tensor);
        const int32_t maker = sent.cell.first - (direction == 0 ? 1 : -1);
        ended_[key_of(maker, sent.direction, sent.cell.second, sent.peer)] = 1;
        stream.pop_front();
        other.pop_front();
        return true;
      }
    }
    return false;
  }

  const Schedule& schedule_;
  std::vector<size_t> next_;
  std::vector<std::array<std::deque<Message>, 2>> streams_;  // by role and direction
  std::map<Cell, std::string> saved_, queued_, outputs_, gradients_out_;
  std::map<std::pair<Cell, Direction>, std::string> arrived_;
  std::map<std::string, int> ended_, waited_;
  Gradients gradients_;
  std::set<std::string> losses_;
  std::vector<char> whole_, unreduced_;
  bool messages_ = false, gathers_ = false, reduces_ = false, sound_ = true;
};

GenerateOptions options_of(int32_t roles, int32_t chunks, int32_t micro_batches) {
  GenerateOptions options;
  options.roles = roles;
  options.chunks = chunks;
  options.micro_batches = micro_batches;
  return options;
}

std::vector<Schedule> computations() {
  std::vector<Schedule> all;
  for (const Kind kind : all_kinds()) {
    for (const int32_t micro_batches : {1, 3, 4}) {
      const bool looped = kind == Kind::kInterleaved || kind == Kind::kBreadthFirst;
      all.push_back(generate(kind, options_of(2, looped ? 2 : 0, micro_batches)));
      all.push_back(generate(kind, options_of(3, 0, micro_batches)));
    }
  }
  Schedule frozen = generate(Kind::k1f1b, options_of(3, 0, 3));
  frozen.stages[0].trains = false;
  all.push_back(prune_frozen(frozen));
  frozen = generate(Kind::kInterleaved, options_of(2, 2, 3));
  frozen.stages[2].trains = false;
  all.push_back(prune_frozen(frozen));
  return all;
}

std::vector<Schedule> valid_schedules() {
  std::vector<Schedule> all;
  for (const Schedule& plain : computations()) {
    all.push_back(plain);
    for (const MessagePlace place : {MessagePlace::kSender, MessagePlace::kTime, MessagePlace::kLate}) {
      all.push_back(place_messages(plain, place, {}));
    }
    all.push_back(limit_run_ahead(all[all.size() - 3], 2));
    const bool paired = std::ranges::any_of(
        plain.roles, [](const RoleSchedule& role) { return std::ranges::any_of(role.actions, &Action::paired); });
    all.push_back(place_messages(place_shards(plain, paired ? 2 : 1), MessagePlace::kSender, {}));
    all.push_back(forward_only(plain));
  }
  return all;
}

TEST(ValidateStages, AcceptsWhatTheGeneratorsAndPassesMake) {
  for (const Schedule& schedule : valid_schedules()) {
    const auto fault = validate_stages(schedule);
    EXPECT_FALSE(fault.has_value()) << fault->reason << "\n" << csv(schedule);
    EXPECT_TRUE(Transport(schedule).run().has_value()) << csv(schedule);
  }
}

bool is_message(const Action& action) { return action.op == Op::kSend || action.op == Op::kReceive; }

std::string lists(const Schedule& schedule) {
  std::string all;
  for (const RoleSchedule& role : schedule.roles) {
    for (const Action& action : role.actions) all += text(action) + "  ";
    all += "\n";
  }
  return all;
}

// A change of one kind at one place, by random numbers.
Schedule mutated(const Schedule& schedule, uint64_t number) {
  const RandomKey key{number, 0};
  uint64_t drawn = 0;
  const auto below = [&](size_t bound) { return static_cast<size_t>(random_word(key, drawn++) % bound); };
  Schedule changed = schedule;
  std::vector<Action>& actions = changed.roles[below(changed.roles.size())].actions;
  const size_t place = below(actions.size()), other = below(actions.size());
  const auto at = actions.begin() + static_cast<ptrdiff_t>(place);
  switch (below(10)) {
    case 0:
      std::swap(actions[place], actions[other]);
      break;
    case 1:
      actions.erase(at);
      break;
    case 2:
      actions.insert(actions.begin() + static_cast<ptrdiff_t>(other), actions[place]);
      break;
    case 3:
    case 4: {  // moved
      const Action action = actions[place];
      actions.erase(at);
      actions.insert(actions.begin() + static_cast<ptrdiff_t>(below(actions.size() + 1)), action);
      break;
    }
    case 5:
      actions[place].stage = static_cast<int32_t>(below(schedule.stages.size() + 2)) - 1;
      break;
    case 6:
      actions[place].micro_batch = static_cast<int32_t>(below(static_cast<size_t>(schedule.micro_batches) + 2)) - 1;
      break;
    case 7:
      if (is_message(actions[place])) actions[place].peer = static_cast<int32_t>(below(schedule.roles.size() + 2)) - 1;
      break;
    case 8:
      if (is_message(actions[place])) actions[place].direction = static_cast<Direction>(below(2));
      break;
    default:
      if (place + 1 < actions.size()) std::swap(actions[place], actions[place + 1]);
  }
  return changed;
}

TEST(ValidateStages, RejectsExactlyWhatHangsMisordersOrComputesAnotherGradient) {
  int rejected = 0, accepted = 0;
  uint64_t number = 0;
  for (Schedule schedule : valid_schedules()) {
    // Partners that are parted are another matter: they run alike.
    for (RoleSchedule& role : schedule.roles) {
      for (Action& action : role.actions) action.paired = false;
    }
    const auto expected = Transport(schedule).run();
    for (int i = 0; i < 40; ++i) {
      const Schedule changed = mutated(schedule, number++);
      const auto got = Transport(changed).run();
      const auto fault = validate_stages(changed);
      EXPECT_EQ(got == expected, !fault.has_value())
          << "number " << number - 1 << (fault ? ": " + fault->reason : " was accepted") << "\n"
          << lists(changed);
      (fault ? rejected : accepted) += 1;
    }
  }
  EXPECT_GT(rejected, 5000);
  EXPECT_GT(accepted, 500);
}

std::string reason(std::string_view text) {
  const auto fault = validate_stages(read_csv(text, "test"));
  return fault ? fault->reason : "";
}

TEST(ValidateStages, NamesRoleActionAndWhatItWaitsFor) {
  EXPECT_EQ(reason("0F0,0B0\n1F0,1B0\n"), "");
  EXPECT_EQ(reason("0B0,0F0\n1F0,1B0\n"),
            "role 0, action 0: backward(stage 0, micro-batch 0): comes before its forward");
  EXPECT_EQ(reason("0F0,0F0,0B0\n1F0,1B0\n"), "role 0, action 1: forward(stage 0, micro-batch 0): done before");
  EXPECT_EQ(
      reason("0F0,0F1,0B1,0B0\n1F0,1F1,1B0,1B1\n"),
      "role 0, action 2: backward(stage 0, micro-batch 1): weight gradients are added in ascending micro-batches; "
      "expected 0");
  EXPECT_EQ(reason("0F0,0I0,0W0,0F1,0I1\n1F0,1B0,1F1,1B1\n"),
            "role 0: stage 0, micro-batch 1: the weight gradient is missing");
  EXPECT_EQ(
      reason("0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1\n"),
      "roles wait for ever; role 0 at action 1, backward(stage 0, micro-batch 0); role 1 at action 1, forward(stage "
      "1, micro-batch 1)");
}

TEST(ValidateStages, LimitsAreKept) {
  const Schedule gpipe = generate(Kind::kGpipe, options_of(2, 0, 4));
  EXPECT_FALSE(validate_stages(gpipe, {.activations = 4}).has_value());
  EXPECT_EQ(validate_stages(gpipe, {.activations = 3})->reason,
            "role 0, action 3: forward(stage 0, micro-batch 3): holds 4.000 activations, at most 3.000 may be held");
  const Schedule sharded = place_shards(generate(Kind::kBreadthFirst, options_of(2, 3, 2)), 2);
  EXPECT_FALSE(validate_stages(sharded, {.whole_stages = 2}).has_value());
  EXPECT_EQ(validate_stages(sharded, {.whole_stages = 1})->reason,
            "role 0, action 1: unshard(stage 2): 2 stages would be whole, at most 1 may be");
}

// Peer bug (torch PR 127332, PiPPy 1088): two roles that send to each other first hang where sends wait for receives.
TEST(ValidateStages, CrissCrossSendsHang) {
  const std::string both =
      "0F0,0SEND_F0,2RECV_F0,2F0,0F1,0SEND_F1,2SEND_F0,2RECV_F1,2F1,2SEND_F1\n"
      "1RECV_F0,1F0,1SEND_F0,1RECV_F1,1F1,1SEND_F1,3RECV_F0,3F0,3RECV_F1,3F1\n";
  EXPECT_NE(reason(both).find("roles wait for ever"), std::string::npos) << reason(both);
}

// Peer bug (torch PR 127796): the wrap-around send of a looped placement, from the last role to the first.
TEST(ValidateStages, AWrapAroundSendNeedsItsReceiveInTime) {
  const Schedule schedule =
      place_messages(generate(Kind::kBreadthFirst, options_of(2, 2, 2)), MessagePlace::kSender, {});
  ASSERT_FALSE(validate_stages(schedule).has_value());
  Schedule late = schedule;
  std::vector<Action>& actions = late.roles[0].actions;
  const auto wrap = std::ranges::find_if(actions, [](const Action& a) { return a.op == Op::kReceive && a.stage == 2; });
  ASSERT_NE(wrap, actions.end());
  const Action moved = *wrap;
  actions.erase(wrap);
  actions.push_back(moved);
  EXPECT_NE(validate_stages(late)->reason.find("comes before the Receive of what it reads"), std::string::npos);
}

// Peer bug (torch): the validator works on sets, so that an action done twice is not noticed.
TEST(ValidateStages, AnActionDoneTwiceIsNoticed) {
  EXPECT_EQ(reason("0F0,0I0,0W0,0W0\n1F0,1B0\n"),
            "role 0, action 3: backward_weight(stage 0, micro-batch 0): done before");
}

// Peer bug (torch): the reduction is placed by counting to the number of micro-batches.
TEST(ValidateStages, AReductionBeforeTheLastWeightGradientIsNotTheLast) {
  EXPECT_EQ(reason("0F0,0F1,0B0,0REDUCE_GRAD,0B1\n1F0,1F1,1B0,1B1,1REDUCE_GRAD\n"),
            "role 0: gradients of stage 0 are never reduced");
  EXPECT_EQ(reason("0F0,0F1,0B0,0REDUCE_GRAD,0B1,0REDUCE_GRAD\n1F0,1F1,1B0,1B1,1REDUCE_GRAD\n"), "");
}

// Peer bug (torch PR 165467): a stage may be gathered several times.
TEST(ValidateStages, AStageMayBeGatheredAgain) {
  EXPECT_EQ(reason("0UNSHARD,0F0,0RESHARD,0UNSHARD,0B0,0RESHARD\n1UNSHARD,1F0,1B0,1RESHARD\n"), "");
  EXPECT_EQ(reason("0UNSHARD,0F0,0RESHARD,0B0\n1F0,1B0\n"),
            "role 0, action 3: backward(stage 0, micro-batch 0): stage 0 is not whole");
}

}  // namespace
}  // namespace weft::schedule
