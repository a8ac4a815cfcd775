// What ranks say to each other in a step: exactly what the schedule's actions say, which is the closed form of each
// layout.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "comm/threads.h"
#include "execute/executor.h"
#include "execute/planned_traffic.h"
#include "model/describe.h"
#include "model/family.h"
#include "nn/segments.h"
#include "schedule/generate.h"
#include "schedule/passes.h"
#include "train/batch.h"

namespace weft::equality {
namespace {

constexpr int64_t kLayers = 2, kWidth = 32, kVocabulary = 40, kLength = 16, kSequences = 6;

struct Model {
  Model() {
    model::LlamaFamily family;
    family.layers = kLayers;
    family.width = kWidth;
    family.heads = 4;
    family.kv_heads = 2;
    family.ffn = 48;
    family.vocabulary = kVocabulary;
    family.tied = true;
    node = family.model();
    description = model::describe(node);
  }
  model::ModelNode node;
  model::ModelDescription description;
};

class NoStep : public execute::OptimizerStep {
 public:
  void apply(nn::ParameterStore&, const execute::StepFacts&) override {}
};

data::SampleBatch batch_of(Range sequences) {
  data::SampleBatch batch;
  batch.rows = sequences.size();
  batch.length = kLength;
  for (int64_t row = sequences.begin; row < sequences.end; ++row) {
    for (int64_t token = 0; token < kLength; ++token) {
      batch.tokens.push_back((row * 7 + token * 3) % kVocabulary);
      batch.targets.push_back((row * 5 + token) % kVocabulary);
      batch.positions.push_back(token);
    }
    batch.sample_ids.push_back(row);
  }
  return batch;
}

struct Step {
  comm::Traffic counted, planned;
};

// Two micro-batches.
schedule::Schedule stage_level(const Model& model, const schedule::Layout& layout) {
  schedule::GenerateOptions options;
  options.roles = static_cast<int32_t>(layout.pipeline);
  options.micro_batches = 2;
  const schedule::Schedule computed =
      schedule::assign_segments(schedule::generate(schedule::Kind::k1f1b, options), model.description);
  return schedule::place_messages(computed, schedule::MessagePlace::kSender, {});
}

// One step of the rank with two micro-batches.
Step run_step(const Model& model, const schedule::Layout& layout, comm::World& plain) {
  comm::Recorder recorder;
  const std::unique_ptr<comm::World> world = comm::recorded(plain, recorder);
  execute::Ranks ranks(layout, *world);
  const schedule::Schedule computed = stage_level(model, layout);
  const schedule::BucketRoles roles = schedule::bucket_roles(model.description, computed.stages);
  const nn::StoreLayout store = ranks.store_layout(false, &roles);
  nn::ParameterStore parameters(model.description, std::vector<bool>(model.description.parameters.size(), false),
                                at::kFloat, at::kCPU, store);
  parameters.initialize(1);
  execute::ParameterTraffic traffic(model.description, parameters, ranks);
  if (layout.shards() > 1 && layout.zero < 3) traffic.unshard_all();
  execute::Executor executor(model.description, nn::build_segments(model.description), parameters, &ranks);
  const Range own = part(kSequences, layout.batch_ranks(), ranks.batch_rank());
  std::vector<nn::MicroBatch> batches;
  execute::BatchShape shape{{}, kLength};
  for (int64_t index = 0; index < 2; ++index) {
    const Range inside = part(own.size(), 2, index);
    batches.push_back(train::micro_batch_of(batch_of({own.begin + inside.begin, own.begin + inside.end}), store.shard));
    shape.sequences.push_back(inside.size());
  }
  const schedule::Schedule lowered = schedule::expand(computed, model.description, layout);
  execute::StepInput input;
  input.micro_batches = batches;
  input.samples = kSequences;
  input.target_tokens = kSequences * kLength;
  NoStep optimizer;
  input.optimizer = &optimizer;
  Step step{{}, execute::planned_traffic(lowered, model.description, parameters, ranks, shape)};
  recorder.allow(step.planned);  // any other call throws
  executor.run(lowered, input);
  for (const auto& [key, count] : recorder.traffic()) {
    if (key.group != "none") step.counted[key] = count;
  }
  return step;
}

std::vector<schedule::Layout> layouts() {
  std::vector<schedule::Layout> all;
  for (const int64_t data : {1, 2}) {
    for (const int64_t fsdp : {1, 2}) {
      for (const int64_t pipeline : {1, 2}) {
        for (const int64_t context : {1, 2}) {
          for (const int64_t tensor : {1, 2, 3}) {
            for (int zero = fsdp > 1 ? 1 : 0; zero <= 3; ++zero) {
              schedule::Layout layout;
              layout.pipeline = pipeline;
              layout.data = data;
              layout.fsdp = fsdp;
              layout.context = context;
              layout.tensor = tensor;
              layout.sequence = tensor == 2;
              layout.zero = zero;
              if (layout.ranks() <= 8) all.push_back(layout);
            }
          }
        }
      }
    }
  }
  return all;
}

TEST(Traffic, IsThatOfTheSchedulesActionsOneForOne) {
  const Model model;
  for (const schedule::Layout& layout : layouts()) {
    comm::run_ranks(static_cast<int>(layout.ranks()), [&](comm::World& world) {
      const Step step = run_step(model, layout, world);
      EXPECT_EQ(comm::difference(step.planned, step.counted), "")
          << "pipeline " << layout.pipeline << " data " << layout.data << " fsdp " << layout.fsdp << " context "
          << layout.context << " tensor " << layout.tensor << " zero " << layout.zero << " rank " << world.rank();
      EXPECT_EQ(step.counted.empty(), layout.ranks() == 1);
    });
  }
}

struct Sum {
  int64_t calls = 0, bytes = 0;
  friend bool operator==(const Sum&, const Sum&) = default;
};

// All calls of an operation in one group, but for the few numbers of loss and norm.
Sum sum(const comm::Traffic& traffic, const std::string& group, comm::Operation operation) {
  Sum total;
  for (const auto& [key, count] : traffic) {
    if (key.group != group || key.operation != operation) continue;
    if (key.what == "loss and metrics" || key.what == "norm of the gradient") continue;
    total.calls += count.calls;
    total.bytes += count.bytes;
  }
  return total;
}

comm::Traffic of_first_rank(const Model& model, const schedule::Layout& layout) {
  comm::Traffic traffic;
  comm::run_ranks(static_cast<int>(layout.ranks()), [&](comm::World& world) {
    const Step step = run_step(model, layout, world);
    if (world.rank() == 0) traffic = step.counted;
  });
  return traffic;
}

TEST(Traffic, HasTheClosedFormOfEachLayout) {
  using comm::Operation;
  const Model model;
  const int64_t parameters = 4 * model.description.parameter_count();
  const int64_t buckets = kLayers + 2, micro_batches = 2;
  schedule::Layout layout;

  // Data parallel: every gradient once.
  layout.data = 2;
  EXPECT_EQ(sum(of_first_rank(model, layout), "dp", Operation::kAllReduce), (Sum{buckets, parameters}));

  // ZeRO-1: a reduce-scatter of the gradients, a gather of the values.
  layout.zero = 1;
  comm::Traffic traffic = of_first_rank(model, layout);
  EXPECT_EQ(sum(traffic, "dp", Operation::kReduceScatter), (Sum{buckets, parameters}));
  EXPECT_EQ(sum(traffic, "dp", Operation::kAllGather), (Sum{buckets, parameters}));

  // ZeRO-2: the reduce-scatter of each micro-batch.
  layout.zero = 2;
  traffic = of_first_rank(model, layout);
  EXPECT_EQ(sum(traffic, "dp", Operation::kReduceScatter), (Sum{micro_batches * buckets, micro_batches * parameters}));

  // Tensor parallel (arXiv 1909.08053): 4 all-reduces of the activations a layer and micro-batch, one for the embedding
  // and one behind the final norm; three numbers a token of each rank for the loss.
  layout = {};
  layout.tensor = 2;
  traffic = of_first_rank(model, layout);
  const int64_t tokens = kSequences * kLength;
  EXPECT_EQ(sum(traffic, "tp", Operation::kAllReduce),
            (Sum{micro_batches * (4 * kLayers + 2), (4 * kLayers + 2) * tokens * kWidth * 4}));
  EXPECT_EQ(sum(traffic, "tp", Operation::kAllGather), (Sum{micro_batches, 2 * tokens * 3 * 4}));

  // With sequence parallelism (arXiv 2205.05198) each all-reduce is a reduce-scatter and a gather; and the norms' gains
  // are added.
  layout.sequence = true;
  traffic = of_first_rank(model, layout);
  EXPECT_EQ(sum(traffic, "tp", Operation::kReduceScatter),
            (Sum{micro_batches * (4 * kLayers + 2), (4 * kLayers + 2) * tokens * kWidth * 4}));
  EXPECT_EQ(sum(traffic, "tp", Operation::kAllGather),
            (Sum{micro_batches * (4 * kLayers + 2 + 1), (4 * kLayers + 2) * tokens * kWidth * 4 + 2 * tokens * 3 * 4}));
  EXPECT_EQ(sum(traffic, "tp", Operation::kAllReduce), (Sum{kLayers + 1, (2 * kLayers + 1) * kWidth * 4}));

  // Context parallel: keys and values gathered forward, their gradients scattered back; every gradient once.
  layout = {};
  layout.context = 2;
  traffic = of_first_rank(model, layout);
  const int64_t key_value_bytes = tokens * (kWidth / 2) * 4;
  EXPECT_EQ(sum(traffic, "cp", Operation::kAllGather),
            (Sum{micro_batches * 2 * kLayers, 2 * kLayers * key_value_bytes}));
  EXPECT_EQ(sum(traffic, "cp", Operation::kReduceScatter),
            (Sum{micro_batches * 2 * kLayers, 2 * kLayers * key_value_bytes}));
  EXPECT_EQ(sum(traffic, "cp", Operation::kAllReduce), (Sum{buckets, parameters}));

  // Pipeline: what stands between two layers, once a micro-batch each way, and the tied embedding each way once a step.
  layout = {};
  layout.pipeline = 2;
  traffic = of_first_rank(model, layout);
  const int64_t embedding_bytes = kVocabulary * kWidth * 4;
  EXPECT_EQ(sum(traffic, "pp", Operation::kSend), (Sum{micro_batches + 1, tokens * kWidth * 4 + embedding_bytes}));
  EXPECT_EQ(sum(traffic, "pp back", Operation::kReceive),
            (Sum{micro_batches + 1, tokens * kWidth * 4 + embedding_bytes}));
}

}  // namespace
}  // namespace weft::equality
