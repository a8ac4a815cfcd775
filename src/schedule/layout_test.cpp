#include "schedule/layout.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "model/describe.h"
#include "model/nodes.h"
#include "schedule/passes.h"
#include "schedule/schedule.h"

namespace weft::schedule {
namespace {

struct Llama {
  Llama() {
    node.layers = 3;
    node.width = 24;
    node.vocabulary = 65;
    model::GroupedQueryAttention attention;
    attention.heads = 4;
    attention.kv_heads = 2;
    attention.head_dim = 6;
    node.layer.attention = attention;
    model::SwiGluMlp mlp;
    mlp.ffn = 48;
    node.layer.mlp = mlp;
    description = model::describe(node);
  }
  model::ModelNode node;
  model::ModelDescription description;
};

std::vector<Layout> layouts() {
  std::vector<Layout> all;
  for (const int64_t data : {1, 3}) {
    for (const int64_t fsdp : {1, 2}) {
      for (const int64_t context : {1, 2}) {
        for (const int64_t tensor : {1, 2, 4}) {
          for (const bool sequence : {false, true}) {
            for (int zero = 0; zero <= 3; ++zero) {
              Layout layout;
              layout.data = data;
              layout.fsdp = fsdp;
              layout.context = context;
              layout.tensor = tensor;
              layout.sequence = sequence && tensor > 1;
              layout.zero = zero;
              all.push_back(layout);
            }
          }
        }
      }
    }
  }
  return all;
}

int64_t count(const Schedule& schedule, Op op) {
  return std::ranges::count_if(schedule.roles[0].actions, [&](const Action& action) { return action.op == op; });
}

TEST(Layout, EveryProductIsValidInTrainingAndEvaluation) {
  const Llama llama;
  for (const Layout& layout : layouts()) {
    for (const Schedule& plain :
         {accumulate(llama.description, 2), split_backward(accumulate(llama.description, 2)),
          recompute(accumulate(llama.description, 2), {true}), evaluate(llama.description, 1)}) {
      EXPECT_EQ(validate(expand(plain, llama.description, layout), llama.description, layout), "");
    }
  }
}

TEST(Layout, NoTrafficMayBeMissingOrDoneTwice) {
  const Llama llama;
  for (const Layout& layout : layouts()) {
    const Schedule whole = expand(accumulate(llama.description, 2), llama.description, layout);
    for (size_t index = 0; index < whole.roles[0].actions.size(); index += 1 + index % 3) {
      const Action action = whole.roles[0].actions[index];
      const bool traffic = action.op == Op::kRedistribute || action.op == Op::kUnshard || action.op == Op::kReshard ||
                           action.op == Op::kReduceGradient;
      if (!traffic) continue;
      Schedule changed = whole;
      std::vector<Action>& actions = changed.roles[0].actions;
      actions.erase(actions.begin() + static_cast<int64_t>(index));
      // Gradients that go into shards may as well go there with those of the next micro-batch.
      const bool later =
          layout.zero >= 2 && action.op == Op::kReduceGradient &&
          std::find(actions.begin() + static_cast<int64_t>(index), actions.end(), action) != actions.end();
      EXPECT_EQ(validate(changed, llama.description, layout).empty(), later) << "without " << text(action);
      changed = whole;
      actions.insert(actions.begin() + static_cast<int64_t>(index), action);
      EXPECT_NE(validate(changed, llama.description, layout), "") << "twice " << text(action);
    }
  }
}

// What is recomputed is let go of behind its forward, made again in front of its backward, and moved between ranks
// again.
TEST(Layout, RecomputedLayersKeepTheirInputAlone) {
  const Llama llama;
  for (const bool cut : {false, true}) {
    Layout layout;
    layout.tensor = cut ? 2 : 1;
    layout.sequence = cut;
    const Schedule kept = expand(accumulate(llama.description, 1), llama.description, layout);
    const Schedule whole = expand(recompute(accumulate(llama.description, 1), {true}), llama.description, layout);
    ASSERT_EQ(validate(whole, llama.description, layout), "");
    const auto light = [](const Action& action) { return action.light; };
    EXPECT_EQ(count(whole, Op::kRecompute), std::ranges::count_if(whole.roles[0].actions, light));
    EXPECT_GT(count(whole, Op::kFree), count(kept, Op::kFree));
    EXPECT_EQ(count(whole, Op::kRedistribute) > count(kept, Op::kRedistribute), cut);
    for (size_t index = 0; index < whole.roles[0].actions.size(); ++index) {
      const Action action = whole.roles[0].actions[index];
      Schedule changed = whole;
      std::vector<Action>& actions = changed.roles[0].actions;
      actions.erase(actions.begin() + static_cast<int64_t>(index));
      EXPECT_NE(validate(changed, llama.description, layout), "") << "without " << text(action);
      actions.insert(actions.begin() + static_cast<int64_t>(index), 2, action);
      EXPECT_NE(validate(changed, llama.description, layout), "") << "twice " << text(action);
      changed = whole;
      changed.roles[0].actions[index].light = !action.light;
      EXPECT_NE(validate(changed, llama.description, layout), "") << text(action) << ", light or not";
    }
  }
}

// Two reductions a layer and direction, one for the embedding, and one behind the final norm; megatron's counts
// (arXiv 1909.08053, figure 4) and with sequence parallelism as many gathers beside them (arXiv 2205.05198).
TEST(Layout, TensorParallelTrafficIsThatOfMegatron) {
  const Llama llama;
  Layout layout;
  layout.tensor = 2;
  const int64_t layers = 3;
  const Schedule tensor = expand(accumulate(llama.description, 1), llama.description, layout);
  // Forward: embedding, attention and MLP of each layer, statistics. Backward: each norm's output.
  EXPECT_EQ(count(tensor, Op::kRedistribute), (1 + 2 * layers + 1) + (2 * layers + 1));
  EXPECT_EQ(count(tensor, Op::kReduceGradient), 0);
  layout.sequence = true;
  const Schedule sequence = expand(accumulate(llama.description, 1), llama.description, layout);
  // Forward: also each norm's output is gathered; backward: also each branch's gradient.
  EXPECT_EQ(count(sequence, Op::kRedistribute), (1 + 2 * layers + 2 * layers + 1 + 1) * 2 - 1);
}

TEST(Layout, ShardedParametersAreGatheredOnceADirection) {
  const Llama llama;
  Layout layout;
  layout.fsdp = 2;
  layout.zero = 3;
  layout.whole_buckets = 1;
  const int64_t buckets = 3 + 2;
  const Schedule one = expand(accumulate(llama.description, 1), llama.description, layout);
  // The tied head needs the embedding's once more; what the backward begins with is still whole.
  EXPECT_EQ(count(one, Op::kUnshard), 2 * buckets + 1);
  EXPECT_EQ(count(one, Op::kReduceGradient), buckets);
  layout.whole_buckets = 2;
  const Schedule two = expand(accumulate(llama.description, 1), llama.description, layout);
  EXPECT_EQ(count(two, Op::kUnshard), 2 * buckets);
  layout.zero = 2;
  const Schedule kept = expand(accumulate(llama.description, 4), llama.description, layout);
  EXPECT_EQ(count(kept, Op::kReduceGradient), 4 * buckets);
  layout.zero = 1;
  const Schedule state = expand(accumulate(llama.description, 4), llama.description, layout);
  EXPECT_EQ(count(state, Op::kReduceGradient), buckets);
  EXPECT_EQ(count(state, Op::kUnshard), buckets);
}

}  // namespace
}  // namespace weft::schedule
