#include "comm/recorder.h"

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

#include "comm/threads.h"

namespace weft::comm {
namespace {

using mesh::ElementType;

Traffic expected_traffic(int rank) {
  const std::string group = "tp";
  Traffic traffic = {{{group, Operation::kAllReduce, "sum"}, {2, 2 * 4 * 4}},
                     {{group, Operation::kReduceScatter, "gradient"}, {1, 4 * 4}},
                     {{group, Operation::kAllGather, "weights"}, {1, 4 * 4}},
                     {{group, Operation::kAllToAll, "tokens"}, {1, rank == 0 ? 3 * 4 : 1 * 4}},
                     {{group, Operation::kBroadcast, "seed"}, {1, 2 * 4}},
                     {{group, Operation::kBarrier, "end"}, {1, 0}}};
  traffic[{group, rank == 0 ? Operation::kSend : Operation::kReceive, "activations"}] = {1, 8};
  return traffic;
}

TEST(Recorder, CountsCallsAndBytesExactly) {
  run_ranks(2, [](World& plain) {
    Recorder recorder;
    const auto world = recorded(plain, recorder);
    const auto group = world->make_group(std::vector{0, 1}, "tp");
    std::vector<float> numbers(4), other(4);
    const Target whole{numbers.data(), 4, ElementType::kFloat32}, part{other.data(), 2, ElementType::kFloat32};
    const std::vector<int64_t> halves = {2, 2};
    const int me = group->rank();
    EXPECT_EQ(me, world->rank());
    for (int i = 0; i < 2; ++i) group->all_reduce(whole, Reduction::kSum, "sum")->wait();
    group->reduce_scatter(whole.source(), part, halves, Reduction::kSum, "gradient")->wait();
    group->all_gather(part.source(), whole, halves, "weights")->wait();
    const std::vector<int64_t> send = {1, me == 0 ? 2 : 0};
    const std::vector<int64_t> in = me == 0 ? std::vector<int64_t>{1, 1} : std::vector<int64_t>{2, 0};
    group
        ->all_to_all({numbers.data(), send[0] + send[1], ElementType::kFloat32}, send,
                     {other.data(), in[0] + in[1], ElementType::kFloat32}, in, "tokens")
        ->wait();
    group->broadcast(part, 1, "seed")->wait();
    if (me == 0) group->send(part.source(), 1, "activations")->wait();
    if (me == 1) group->receive(part, 0, "activations")->wait();
    group->barrier("end")->wait();
    EXPECT_EQ(difference(expected_traffic(me), recorder.traffic()), "");
    EXPECT_EQ(recorder.traffic(), expected_traffic(me));
    recorder.clear();
    EXPECT_TRUE(recorder.traffic().empty());
  });
}

TEST(Recorder, DifferencesNameTheCall) {
  Traffic counted = expected_traffic(0);
  counted[{"tp", Operation::kAllReduce, "sum"}].bytes += 4;
  counted[{"dp", Operation::kAllReduce, "norm"}] = {1, 8};
  counted.erase({"tp", Operation::kBroadcast, "seed"});
  const std::string text = difference(expected_traffic(0), counted);
  EXPECT_NE(text.find("group tp, all_reduce \"sum\": 2 calls of 32 bytes in all are expected, 2 of 36"), text.npos)
      << text;
  EXPECT_NE(text.find("group dp, all_reduce \"norm\": 0 calls"), text.npos) << text;
  EXPECT_NE(text.find("group tp, broadcast \"seed\": 1 calls of 8 bytes in all are expected, 0 of 0"), text.npos)
      << text;
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 3) << text;
}

TEST(Recorder, RefusedCallsDoNotCount) {
  run_ranks(1, [](World& plain) {
    Recorder recorder;
    const auto world = recorded(plain, recorder);
    const auto group = world->make_group(std::vector{0}, "tp");
    EXPECT_THROW((void)group->broadcast({}, 1, "x"), CommunicationError);
    EXPECT_TRUE(recorder.traffic().empty());
  });
}

TEST(Recorder, RefusesWhatIsNotPlanned) {
  run_ranks(2, [](World& plain) {
    Recorder recorder;
    const auto world = recorded(plain, recorder);
    const auto group = world->make_group(std::vector{0, 1}, "tp");
    std::vector<float> numbers(4);
    const Target target{numbers.data(), 4, ElementType::kFloat32};
    recorder.allow({{{"tp", Operation::kAllReduce, "sum"}, {1, 16}}});
    group->all_reduce(target, Reduction::kSum, "sum")->wait();
    EXPECT_THROW(group->all_reduce(target, Reduction::kSum, "sum"), CommunicationError);
    EXPECT_THROW(group->barrier("end"), CommunicationError);
    EXPECT_EQ(recorder.traffic().size(), 1U);
  });
}

}  // namespace
}  // namespace weft::comm
