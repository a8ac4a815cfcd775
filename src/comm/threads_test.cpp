#include "comm/threads.h"

#include <atomic>
#include <numeric>
#include <thread>

#include <gtest/gtest.h>

#include "comm/one.h"
#include "comm/test_calls.h"
#include "comm/text.h"

namespace weft::comm {
namespace {

using namespace std::chrono_literals;
using mesh::ElementType;

std::vector<int> all_ranks(int size) {
  std::vector<int> ranks(size);
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

std::unique_ptr<Communicator> whole_group(World& world) { return world.make_group(all_ranks(world.size()), "all"); }

// The text of what `body` throws on every rank.
std::vector<std::string> failures(int size, const std::function<void(World&)>& body, ThreadOptions options = {}) {
  std::vector<std::string> texts(size);
  run_ranks(
      size,
      [&](World& world) {
        try {
          body(world);
        } catch (const CommunicationError& error) {
          texts[world.rank()] = error.what();
        }
      },
      options);
  return texts;
}

void expect_words(const std::string& text, const std::vector<std::string_view>& words) {
  for (const std::string_view word : words) EXPECT_NE(text.find(word), std::string::npos) << word << " in: " << text;
}

TEST(Threads, TextsOfAllReachAll) {
  for (const int size : {1, 3}) {
    run_ranks(size, [&](World& world) {
      const auto group = whole_group(world);
      const auto text = [](int rank) {
        return std::string(static_cast<size_t>(rank * rank), static_cast<char>('a' + rank));
      };
      const auto texts = gather_texts(text(world.rank()), *group, "texts");
      ASSERT_EQ(texts.size(), static_cast<size_t>(size));
      for (int rank = 0; rank < size; ++rank) EXPECT_EQ(texts[static_cast<size_t>(rank)], text(rank));
    });
  }
}

TEST(Threads, EveryOperationGivesWhatItSays) {
  for (const int size : {1, 2, 3, 4, 5}) {
    std::atomic<int> checked = 0;
    run_ranks(size, [&](World& world) {
      const auto group = whole_group(world);
      for (const TestResult& result : TestCalls(*group).run()) {
        EXPECT_EQ(result.bytes, result.expected) << result.name << ", rank " << world.rank() << " of " << size;
        ++checked;
      }
    });
    EXPECT_GT(checked, 100);
  }
}

TEST(Threads, MoreRanksThanCoresAndGroupsOfSome) {
  run_ranks(8, [](World& world) {
    const int half = world.rank() % 2;
    const auto own = world.make_group(std::vector{half, half + 2, half + 4, half + 6}, "half");
    const auto all = whole_group(world);
    EXPECT_EQ(own->rank(), world.rank() / 2);
    for (int round = 0; round < 50; ++round) {
      int64_t sum = world.rank(), whole = 1;
      const Handle first = own->all_reduce({&sum, 1, ElementType::kInt64}, Reduction::kSum, "half");
      all->all_reduce({&whole, 1, ElementType::kInt64}, Reduction::kSum, "whole")->wait();
      first->wait();
      EXPECT_EQ(sum, half == 0 ? 12 : 16);
      EXPECT_EQ(whole, 8);
    }
  });
}

TEST(Threads, PartOfAnAllReduceIsTheAllReduceOfThePart) {
  run_ranks(4, [](World& world) {
    const auto group = whole_group(world);
    std::vector<float> whole = test_numbers<float>(world.rank(), 5000), parts = whole;
    group->all_reduce({whole.data(), 5000, ElementType::kFloat32}, Reduction::kSum, "whole")->wait();
    for (int64_t begin = 0; begin < 5000; begin += 617) {
      const int64_t count = std::min<int64_t>(617, 5000 - begin);
      group->all_reduce({parts.data() + begin, count, ElementType::kFloat32}, Reduction::kSum, "part")->wait();
    }
    EXPECT_EQ(whole, parts);
  });
}

TEST(Threads, AMaximumKeepsNaNAndBFloat16KeepsInfinity) {
  run_ranks(3, [](World& world) {
    const auto group = whole_group(world);
    for (int odd = 0; odd < 3; ++odd) {
      float number = world.rank() == odd ? NAN : static_cast<float>(world.rank());
      group->all_reduce({&number, 1, ElementType::kFloat32}, Reduction::kMax, "amax")->wait();
      EXPECT_TRUE(std::isnan(number)) << odd;
    }
    uint16_t bits[] = {0x7f7f, static_cast<uint16_t>(world.rank() == 1 ? 0x7fff : 0)};  // the greatest; a NaN
    group->all_reduce({bits, 2, ElementType::kBFloat16}, Reduction::kSum, "large")->wait();
    EXPECT_EQ(bits[0], 0x7f80) << "infinity";
    EXPECT_EQ(bits[1], 0x7fff) << "a NaN";
  });
}

TEST(Threads, MismatchedCallsFailForEveryMemberAndNameBothSides) {
  const auto texts = failures(3, [](World& world) {
    const auto group = whole_group(world);
    std::vector<float> numbers(8);
    const int64_t count = world.rank() == 2 ? 7 : 8;
    group->all_reduce({numbers.data(), count, ElementType::kFloat32}, Reduction::kSum, "gradient")->wait();
  });
  for (const std::string& text : texts) {
    expect_words(text, {"group all", "rank 0 calls all_reduce (sum) of 8 f32 \"gradient\"",
                        "rank 2 calls all_reduce (sum) of 7 f32 \"gradient\""});
  }
}

struct Difference {
  std::string_view name;
  std::function<Handle(Communicator&, std::vector<float>&)> usual, other;
  std::vector<std::string_view> words;  // owns its list, which an initializer_list would not
};

TEST(Threads, EveryKindOfMismatchIsSeen) {
  const auto f32 = ElementType::kFloat32;
  const std::vector<int64_t> even = {4, 4}, uneven = {5, 3};
  const auto reduce = [&](Reduction reduction, std::string_view what) {
    return [=](Communicator& group, std::vector<float>& numbers) {
      return group.all_reduce({numbers.data(), 8, f32}, reduction, what);
    };
  };
  const auto gather = [&](std::vector<int64_t> counts) {
    return [=](Communicator& group, std::vector<float>& numbers) {
      return group.all_gather({numbers.data() + 8, counts[group.rank()], f32}, {numbers.data(), 8, f32}, counts, "x");
    };
  };
  const auto exchange = [&](std::vector<int64_t> send, std::vector<int64_t> receive) {
    return [=](Communicator& group, std::vector<float>& numbers) {
      return group.all_to_all({numbers.data(), send[0] + send[1], f32}, send,
                              {numbers.data() + 16, receive[0] + receive[1], f32}, receive, "tokens");
    };
  };
  const auto cast = [&](int root) {
    return [=](Communicator& group, std::vector<float>& numbers) {
      return group.broadcast({numbers.data(), 8, f32}, root, "x");
    };
  };
  const std::vector<Difference> differences = {
      {"reduction", reduce(Reduction::kSum, "x"), reduce(Reduction::kMax, "x"), {"(sum)", "(max)"}},
      {"what", reduce(Reduction::kSum, "layer 1"), reduce(Reduction::kSum, "layer 2"), {"layer 1", "layer 2"}},
      {"operation", reduce(Reduction::kSum, "x"), gather(even), {"all_reduce", "all_gather"}},
      {"parts", gather(even), gather(uneven), {"cut into other parts"}},
      {"root", cast(0), cast(1), {"from member 0", "from member 1"}},
      {"part of an all-to-all",
       exchange({2, 3}, {2, 1}),
       exchange({1, 4}, {2, 4}),
       {"rank 0 sends rank 1 3", "expects 2"}},
  };
  for (const Difference& difference : differences) {
    const auto texts = failures(2, [&](World& world) {
      const auto group = whole_group(world);
      std::vector<float> numbers(32);
      (world.rank() == 0 ? difference.usual : difference.other)(*group, numbers)->wait();
    });
    for (const std::string& text : texts) expect_words(text, difference.words);
  }
  const auto texts = failures(2, [&](World& world) {
    const auto group = whole_group(world);
    std::vector<float> numbers(8);
    if (world.rank() == 0) group->send({numbers.data(), 8, f32}, 1, "activations")->wait();
    if (world.rank() == 1) group->receive({numbers.data(), 4, f32}, 0, "activations")->wait();
  });
  for (const std::string& text : texts) expect_words(text, {"rank 0 sends rank 1 8 f32", "expects 4 f32"});
}

TEST(Threads, WrongArgumentsAreRefusedAtTheCall) {
  run_ranks(2, [](World& world) {
    const auto group = whole_group(world);
    std::vector<float> numbers(8);
    const Target target{numbers.data(), 8, ElementType::kFloat32};
    const std::vector<int64_t> counts = {4, 3}, three = {4, 2, 2};
    const auto sum = Reduction::kSum;
    EXPECT_THROW((void)group->all_gather(target.source(), target, counts, "x"), CommunicationError);
    EXPECT_THROW((void)group->reduce_scatter(target.source(), target, three, sum, "x"), CommunicationError);
    EXPECT_THROW((void)group->broadcast(target, 2, "x"), CommunicationError);
    EXPECT_THROW((void)group->send(target.source(), world.rank(), "x"), CommunicationError);
    EXPECT_THROW((void)group->all_reduce({numbers.data(), 8, ElementType::kUInt8}, sum, "x"), CommunicationError);
    EXPECT_THROW((void)world.make_group(std::vector{1, 0}, "x"), CommunicationError);
    EXPECT_THROW((void)world.make_group(std::vector{1 - world.rank()}, "x"), CommunicationError);
  });
}

TEST(Threads, AbortFreesEverybodyAtOnceWithTheReason) {
  const auto start = std::chrono::steady_clock::now();
  const auto texts = failures(4, [](World& world) {
    const auto group = whole_group(world);
    int64_t number = 1;
    if (world.rank() == 3) {
      world.abort("the disk is full");
    } else {
      group->all_reduce({&number, 1, ElementType::kInt64}, Reduction::kSum, "loss")->wait();
    }
    const auto later = world.make_group(all_ranks(world.size()), "later");
    EXPECT_THROW(later->barrier("x")->wait(), CommunicationError);
  });
  EXPECT_LT(std::chrono::steady_clock::now() - start, 5s);
  for (int rank = 0; rank < 3; ++rank) {
    expect_words(texts[rank],
                 {"all_reduce", "\"loss\"", "group all", "rank " + std::to_string(rank), "the disk is full"});
  }
}

TEST(Threads, TheFirstExceptionComesOutWithItsRankAndType) {
  const auto start = std::chrono::steady_clock::now();
  try {
    run_ranks(3, [](World& world) {
      const auto group = whole_group(world);
      std::vector<float> numbers(100'000);
      const Handle pending = group->all_reduce({numbers.data(), 100'000, ElementType::kFloat32}, Reduction::kSum, "x");
      if (world.rank() == 1) throw InputError("no such file");
      group->barrier("others")->wait();
    });
    FAIL() << "nothing was thrown";
  } catch (const InputError& error) {
    EXPECT_STREQ(error.what(), "rank 1: no such file");
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, 5s);
}

TEST(Threads, ATimeoutNamesWhoDidNotCome) {
  const auto texts = failures(3,
                              [](World& world) {
                                const auto group = whole_group(world);
                                if (world.rank() == 1) return;
                                int64_t number = 1;
                                group->all_reduce({&number, 1, ElementType::kInt64}, Reduction::kSum, "loss")->wait();
                              },
                              {.timeout = 50ms});
  EXPECT_EQ(texts[1], "");
  for (const int rank : {0, 2}) expect_words(texts[rank], {"all_reduce", "\"loss\"", "waited 0.05 s", "for rank 1 "});
}

TEST(Threads, AHandleThatIsDroppedWaits) {
  run_ranks(2, [](World& world) {
    const auto group = whole_group(world);
    int64_t number = 1;
    static_cast<void>(group->all_reduce({&number, 1, ElementType::kInt64}, Reduction::kSum, "x"));
    EXPECT_EQ(number, 2);
  });
}

TEST(One, GroupsOfOneNeedNobody) {
  OneWorld world;
  const auto group = world.make_group(std::vector{0}, "all");
  for (const TestResult& result : TestCalls(*group).run()) EXPECT_EQ(result.bytes, result.expected) << result.name;
}

}  // namespace
}  // namespace weft::comm
