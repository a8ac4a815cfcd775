#include "schedule/passes.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/philox.h"
#include "schedule/rendezvous.h"
#include "schedule/text_form.h"
#include "schedule/timeline.h"

namespace weft::schedule {
namespace {

GenerateOptions shape(int32_t roles, int32_t chunks, int32_t micro_batches) {
  GenerateOptions options;
  options.roles = roles;
  options.chunks = chunks;
  options.micro_batches = micro_batches;
  return options;
}

// Of the role that has the most.
int64_t count(const Schedule& schedule, Op op) {
  int64_t most = 0;
  for (const RoleSchedule& role : schedule.roles) {
    most = std::max<int64_t>(most, std::ranges::count(role.actions, op, &Action::op));
  }
  return most;
}

struct Gathers {
  int32_t roles, chunks, micro_batches;
  std::array<int64_t, 3> breadth_first, interleaved;  // with 1, 2 and 3 whole stages
};
constexpr Gathers kGathers[] = {
    {4, 2, 8, {3, 2, 2}, {19, 2, 2}},     {4, 4, 8, {7, 6, 5}, {39, 12, 11}},  {4, 4, 16, {7, 6, 5}, {99, 20, 15}},
    {4, 4, 32, {7, 6, 5}, {219, 36, 23}}, {8, 4, 32, {7, 6, 5}, {-1, 20, 15}}, {8, 8, 16, {15, 14, 13}, {-1, 28, 27}},
    {2, 2, 4, {3, 2, 2}, {-1, 2, 2}},
};

TEST(PlaceShards, GathersAreThoseOfTheTable) {
  for (const auto& [roles, chunks, micro_batches, breadth_first, interleaved] : kGathers) {
    for (const int32_t whole : {1, 2, 3}) {
      const size_t column = static_cast<size_t>(whole - 1);
      const GenerateOptions options = shape(roles, chunks, micro_batches);
      const Schedule bfs = place_shards(generate(Kind::kBreadthFirst, options), whole);
      EXPECT_EQ(count(bfs, Op::kUnshard), breadth_first[column]);
      EXPECT_EQ(count(bfs, Op::kReduceGradient), chunks);
      if (interleaved[column] < 0) continue;
      const Schedule table = place_shards(generate(Kind::kInterleaved, options), whole);
      EXPECT_EQ(count(table, Op::kUnshard), interleaved[column])
          << roles << " " << chunks << " " << micro_batches << " " << whole;
    }
  }
}

constexpr MessagePlace kPlaces[] = {MessagePlace::kSender, MessagePlace::kTime, MessagePlace::kLate};

std::vector<Schedule> generated(int32_t most_roles, int32_t most_micro_batches) {
  std::vector<Schedule> result;
  for (const Kind kind : all_kinds()) {
    const bool any_chunks = kind == Kind::kInterleaved || kind == Kind::kBreadthFirst;
    for (int32_t roles = 1; roles <= most_roles; ++roles) {
      for (int32_t chunks = any_chunks ? 1 : 0; chunks <= (any_chunks ? 3 : 0); ++chunks) {
        for (int32_t micro_batches = 1; micro_batches <= most_micro_batches; micro_batches += 2) {
          result.push_back(generate(kind, shape(roles, chunks, micro_batches)));
        }
      }
    }
  }
  return result;
}

// Peer bugs: pytorch 127796 (wrap-around sends), 127332 and PiPPy 1088 (sends that cross), torchtitan 775 (M < P).
TEST(PlaceMessages, NoPlaceHangs) {
  Times slow;
  slow.message = 0.7;
  for (const Schedule& schedule : generated(5, 11)) {
    for (const MessagePlace place : kPlaces) {
      for (const Times& times : {Times{}, slow}) {
        const Schedule placed = place_messages(schedule, place, times);
        const std::optional<Schedule> done = run_rendezvous(placed);
        ASSERT_TRUE(done.has_value()) << static_cast<int>(place) << "\n" << csv(schedule) << "\n" << csv(placed);
        Schedule bare = placed;
        for (RoleSchedule& role : bare.roles) {
          std::erase_if(role.actions, [](const Action& a) { return a.op == Op::kSend || a.op == Op::kReceive; });
        }
        ASSERT_EQ(csv(bare), csv(schedule));
      }
    }
  }
}

// A schedule of random owners whose lists follow one random order that is possible: nobody would write it by hand.
Schedule random_schedule(uint64_t trial) {
  uint64_t draw = trial << 32;
  const auto number = [&draw](size_t below) {
    return static_cast<int32_t>(random_word(RandomKey{1, 2}, draw++) % static_cast<uint32_t>(below));
  };
  const int32_t roles = 2 + number(4), stages = roles + number(6), micro_batches = 1 + number(6);
  Schedule schedule;
  schedule.micro_batches = micro_batches;
  schedule.roles.resize(static_cast<size_t>(roles));
  schedule.stages.resize(static_cast<size_t>(stages));
  for (int32_t stage = 0; stage < stages; ++stage) {
    schedule.stages[static_cast<size_t>(stage)].role = stage < roles ? stage : number(static_cast<size_t>(roles));
  }
  std::vector<int32_t> next(static_cast<size_t>(micro_batches));  // of 2 S steps: forwards up, backwards down
  std::vector<int32_t> open;
  for (int32_t micro_batch = 0; micro_batch < micro_batches; ++micro_batch) open.push_back(micro_batch);
  while (!open.empty()) {
    const size_t chosen = static_cast<size_t>(number(open.size()));
    const int32_t micro_batch = open[chosen], step = next[static_cast<size_t>(micro_batch)]++;
    Action action;
    action.op = step < stages ? Op::kForward : Op::kBackward;
    action.stage = step < stages ? step : 2 * stages - 1 - step;
    action.micro_batch = micro_batch;
    const int32_t role = schedule.stages[static_cast<size_t>(action.stage)].role;
    schedule.roles[static_cast<size_t>(role)].actions.push_back(action);
    if (step + 1 == 2 * stages) open.erase(open.begin() + static_cast<ptrdiff_t>(chosen));
  }
  return schedule;
}

TEST(PlaceMessages, NoPlaceHangsInAnyOrder) {
  for (uint64_t trial = 0; trial < 2000; ++trial) {
    const Schedule schedule = random_schedule(trial);
    for (const MessagePlace place : kPlaces) {
      const Schedule placed = place_messages(schedule, place, {});
      ASSERT_TRUE(run_rendezvous(placed).has_value()) << static_cast<int>(place) << "\n" << csv(placed);
    }
  }
}

// Peer bug: torchtitan 774. The last stage of a V is the first role's, and the turn needs no message.
TEST(PlaceMessages, TheTurnOfAVIsLocal) {
  const Schedule placed = place_messages(generate(Kind::kZeroBubbleV, shape(4, 2, 8)), MessagePlace::kSender, {});
  EXPECT_EQ(placed.stages[7].role, 0);
  EXPECT_EQ(placed.stages[3].role, placed.stages[4].role);
  for (const Action& action : placed.roles[3].actions) {
    if (action.op != Op::kSend && action.op != Op::kReceive) continue;
    const bool outwards = (action.op == Op::kSend) == (action.direction == Direction::kForward);
    EXPECT_NE(action.stage, outwards ? 3 : 4) << text(action);
    EXPECT_EQ(action.peer, 2) << text(action);
  }
}

// Peer bug: Megatron 750. Of two roles one is in front of and behind the other; a message is told by stage, micro-batch
// and direction, and the k-th that is sent is the k-th received.
TEST(PlaceMessages, SendsMeetReceivesInOrder) {
  for (const Schedule& schedule : generated(4, 9)) {
    for (const MessagePlace place : kPlaces) {
      const Schedule placed = place_messages(schedule, place, {});
      std::map<std::tuple<int32_t, int32_t, Direction>, std::vector<std::pair<int32_t, int32_t>>> sent, received;
      for (int32_t role = 0; role < static_cast<int32_t>(placed.roles.size()); ++role) {
        for (const Action& action : placed.roles[static_cast<size_t>(role)].actions) {
          const int32_t maker = action.stage - (action.direction == Direction::kForward ? 1 : -1);
          if (action.op == Op::kSend) {
            sent[{role, action.peer, action.direction}].emplace_back(action.stage, action.micro_batch);
          } else if (action.op == Op::kReceive) {
            received[{action.peer, role, action.direction}].emplace_back(maker, action.micro_batch);
          }
        }
      }
      ASSERT_EQ(sent, received) << csv(placed);
    }
  }
}

// Computations between a receive and its reader, of all receives.
int64_t early(const Schedule& placed) {
  int64_t result = 0;
  for (const RoleSchedule& role : placed.roles) {
    for (auto receive = role.actions.begin(); receive != role.actions.end(); ++receive) {
      if (receive->op != Op::kReceive) continue;
      for (auto other = receive + 1; other != role.actions.end(); ++other) {
        const bool same_way = (other->op == Op::kForward) == (receive->direction == Direction::kForward);
        if (other->stage == receive->stage && other->micro_batch == receive->micro_batch && same_way) break;
        if (other->op != Op::kSend && other->op != Op::kReceive) ++result;
      }
    }
  }
  return result;
}

// Peer bugs: pytorch 172668, 188833. A receive need not be posted with the first chance its sender has: kLate has next
// to no receive in front of other work where one role's messages pass each other in order.
TEST(PlaceMessages, LateReceivesAreNotInFront) {
  for (const Kind kind : all_kinds()) {
    const bool any_chunks = kind == Kind::kInterleaved || kind == Kind::kBreadthFirst;
    const Schedule bare = generate(kind, shape(4, any_chunks ? 2 : 0, 12));
    const int64_t late = early(place_messages(bare, MessagePlace::kLate, {}));
    const int64_t sender = early(place_messages(bare, MessagePlace::kSender, {}));
    EXPECT_TRUE(late < sender || late == 0) << name(kind);
    const bool few = kind == Kind::kGpipe || kind == Kind::k1f1b || kind == Kind::kZeroBubbleH1;
    EXPECT_TRUE(late <= 2 || !few) << name(kind);
  }
}

// Peer bug: pytorch 127332. Two roles send to each other at once: late receives alone would hang, one is posted
// earlier.
TEST(PlaceMessages, LateIsEarlierWhereItWouldHang) {
  const Schedule bare = read_csv("0F0,0F1,2F0,2F1,2B0,2B1,0B0,0B1\n1F0,1F1,3F0,3F1,3B0,3B1,1B0,1B1\n", "two roles");
  Schedule late = place_messages(bare, MessagePlace::kTime, {});
  for (RoleSchedule& role : late.roles) {  // every receive right in front of its reader, whatever happens
    std::vector<Action> receives, actions;
    for (const Action& action : role.actions) {
      if (action.op == Op::kReceive) receives.push_back(action);
    }
    for (const Action& action : role.actions) {
      if (action.op == Op::kReceive) continue;
      for (const Action& receive : receives) {
        const bool reads = receive.stage == action.stage && receive.micro_batch == action.micro_batch &&
                           (action.op == Op::kForward) == (receive.direction == Direction::kForward);
        if (reads && (action.op == Op::kForward || action.op == Op::kBackward)) actions.push_back(receive);
      }
      actions.push_back(action);
    }
    role.actions = actions;
  }
  EXPECT_FALSE(run_rendezvous(late).has_value());
  EXPECT_TRUE(run_rendezvous(place_messages(bare, MessagePlace::kLate, {})).has_value());
}

// Peer bug: pytorch 165467. With more stages a role than may be whole, a stage is gathered more than once, and given
// back in between.
TEST(PlaceShards, AStageIsGatheredAgainAfterItWasGivenBack) {
  for (const Schedule& bare : generated(3, 9)) {
    for (const int32_t whole : {2, 3, 4}) {
      const Schedule placed = place_shards(bare, whole);
      for (const RoleSchedule& role : placed.roles) {
        std::map<int32_t, int> held;
        std::map<int32_t, bool> unreduced;
        int64_t together = 0;
        for (const Action& action : role.actions) {
          if (action.op == Op::kUnshard) {
            ASSERT_EQ(held[action.stage]++, 0) << csv(placed);
            ASSERT_LE(++together, whole) << csv(placed);
          } else if (action.op == Op::kReshard) {
            ASSERT_EQ(held[action.stage]--, 1) << csv(placed);
            ASSERT_FALSE(unreduced[action.stage]) << csv(placed);
            --together;
          } else if (action.op == Op::kReduceGradient) {
            ASSERT_TRUE(unreduced[action.stage]) << csv(placed);
            unreduced[action.stage] = false;
          } else {
            ASSERT_EQ(held[action.stage], 1) << csv(placed);
            if (action.op == Op::kBackward || action.op == Op::kBackwardWeight) unreduced[action.stage] = true;
          }
        }
        ASSERT_EQ(together, 0) << csv(placed);
      }
    }
  }
}

TEST(PlaceShards, GradientsAloneAreReducedWhenTheirPlaceIsGivenAway) {
  const Schedule bare = generate(Kind::kInterleaved, shape(2, 3, 4));
  const Schedule placed = place_shards(bare, 1, false);
  EXPECT_EQ(count(placed, Op::kUnshard), 0);
  EXPECT_EQ(count(placed, Op::kReshard), 0);
  EXPECT_EQ(count(placed, Op::kReduceGradient), 6);  // three stages in two groups of micro-batches
  EXPECT_EQ(count(place_shards(bare, 3, false), Op::kReduceGradient), 3);
}

TEST(PlaceShards, APairNeedsBothStages) {
  const Schedule pairs = generate(Kind::kDualPipeV, shape(2, 2, 4));
  EXPECT_THROW((void)place_shards(pairs, 1), InputError);
  EXPECT_THROW((void)place_shards(place_shards(pairs, 2), 2), InputError);
  EXPECT_THROW((void)place_shards(pairs, 0), InputError);
}

TEST(MergeBackward, UndoesSplit) {
  for (const Kind kind : {Kind::kGpipe, Kind::k1f1b, Kind::kInterleaved}) {
    const Schedule schedule = generate(kind, shape(3, kind == Kind::kInterleaved ? 2 : 1, 6));
    EXPECT_EQ(csv(merge_backward(split_backward(schedule))), csv(schedule));
  }
  // zb-h1 keeps what stands apart.
  EXPECT_EQ(csv(merge_backward(generate(Kind::kZeroBubbleH1, shape(2, 1, 3)))),
            "0F0,0F1,0B0,0F2,0B1,0B2\n1F0,1I0,1F1,1I1,1W0,1F2,1I2,1W1,1W2\n");
}

TEST(PruneFrozen, LeadingStagesHaveNoBackwardAndNoGradientsComeToThem) {
  Schedule schedule = place_messages(generate(Kind::k1f1b, shape(4, 1, 3)), MessagePlace::kSender, {});
  schedule.stages[0].trains = schedule.stages[2].trains = false;
  const Schedule pruned = prune_frozen(schedule);
  EXPECT_EQ(csv(pruned),
            "0F0,0SEND_F0,0F1,0SEND_F1,0F2,0SEND_F2\n"
            "1RECV_F0,1F0,1SEND_F0,1RECV_F1,1F1,1SEND_F1,1RECV_F2,1F2,1SEND_F2,1RECV_B0,1B0,1RECV_B1,1B1,1RECV_B2,1B2\n"
            "2RECV_F0,2F0,2SEND_F0,2RECV_F1,2F1,2SEND_F1,2RECV_B0,2RECV_F2,2I0,2SEND_B0,2F2,2SEND_F2,2RECV_B1,2I1,"
            "2SEND_B1,2RECV_B2,2I2,2SEND_B2\n"
            "3RECV_F0,3F0,3RECV_F1,3B0,3SEND_B0,3F1,3RECV_F2,3B1,3SEND_B1,3F2,3B2,3SEND_B2\n");
  EXPECT_TRUE(run_rendezvous(pruned).has_value());
  // The other way round: messages of what was pruned.
  Schedule bare = generate(Kind::k1f1b, shape(4, 1, 3));
  bare.stages[0].trains = bare.stages[2].trains = false;
  const Schedule placed = place_messages(prune_frozen(bare), MessagePlace::kLate, {});
  EXPECT_TRUE(run_rendezvous(placed).has_value());
  EXPECT_EQ(count(placed, Op::kSend), count(pruned, Op::kSend));
}

TEST(ForwardOnly, KeepsForwardsAndTheirMessages) {
  const Schedule full = place_messages(generate(Kind::kDualPipeV, shape(2, 2, 4)), MessagePlace::kSender, {});
  const Schedule forward = forward_only(full);
  EXPECT_TRUE(run_rendezvous(forward).has_value());
  EXPECT_EQ(count(forward, Op::kForward), 8);
  EXPECT_EQ(count(forward, Op::kBackward) + count(forward, Op::kBackwardInput), 0);
  EXPECT_EQ(csv(forward_only(read_csv("0F0,0SEND_F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0\n", "two"))),
            "0F0,0SEND_F0\n1RECV_F0,1F0\n");
}

TEST(Recompute, StandsBeforeEveryBackwardOfItsStages) {
  GenerateOptions options = shape(2, 1, 2);
  EXPECT_EQ(csv(recompute(generate(Kind::k1f1b, options), {true, false})),
            "0F0,0F1,0RECOMPUTE0,0B0,0RECOMPUTE1,0B1\n1F0,1B0,1F1,1B1\n");
  EXPECT_EQ(csv(recompute(read_csv("0F0,1F0,0F1,(1F1;1B0)OVERLAP_F_B,0B0,1B1,0B1", "pair"), {false, true})),
            "0F0,1F0,0F1,1RECOMPUTE0,(1F1;1B0)OVERLAP_F_B,0B0,1RECOMPUTE1,1B1,0B1\n");
  EXPECT_THROW((void)recompute(generate(Kind::k1f1b, options), {true}), InputError);
}

TEST(LimitRunAhead, SoManySendsAreOnTheirWay) {
  const Schedule placed = place_messages(generate(Kind::kGpipe, shape(2, 1, 4)), MessagePlace::kSender, {});
  EXPECT_EQ(csv(limit_run_ahead(placed, 2)).substr(0, csv(limit_run_ahead(placed, 2)).find('\n')),
            "0F0,0SEND_F0,0F1,0SEND_F1,0F2,0WAIT_SEND_F0,0SEND_F2,0F3,0WAIT_SEND_F1,0SEND_F3,0RECV_B0,0B0,0RECV_B1,0B1,"
            "0RECV_B2,0B2,0RECV_B3,0B3,0WAIT_SEND_F2,0WAIT_SEND_F3");
  for (const Schedule& bare : generated(4, 7)) {
    for (const MessagePlace place : {MessagePlace::kSender, MessagePlace::kTime}) {
      EXPECT_NO_THROW((void)limit_run_ahead(place_messages(bare, place, {}), 1)) << csv(bare);
    }
  }
  EXPECT_THROW((void)limit_run_ahead(placed, 0), InputError);
}

TEST(DeferForwards, TheStepStaysAndThePeakFalls) {
  const Schedule before = generate(Kind::kInterleaved, shape(4, 2, 8)), after = defer_forwards(before);
  Times chunk;
  chunk.forward = 2;  // a chunk: 1 and 2
  chunk.input = 4;
  chunk.weight = 0;
  const Durations lengths = durations(chunk, {}, 8, 2);
  EXPECT_EQ(timeline(before, lengths)->makespan, 57);
  const Timeline when = *timeline(after, lengths);
  EXPECT_EQ(when.makespan, 57);
  std::vector<double> begins;
  int64_t held = 0, peak = 0;
  for (size_t index = 0; index < after.roles[0].actions.size(); ++index) {
    const Action& action = after.roles[0].actions[index];
    held += action.op == Op::kForward ? 1 : -1;
    peak = std::max(peak, held);
    if (action.op == Op::kForward && action.stage == 0) begins.push_back(when.begins[0][index]);
  }
  EXPECT_EQ(peak, 8);
  EXPECT_EQ(begins, (std::vector<double>{0, 1, 2, 3, 16, 19, 22, 25}));
}

}  // namespace
}  // namespace weft::schedule
