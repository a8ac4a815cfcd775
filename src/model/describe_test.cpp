#include "model/describe.h"

#include <algorithm>
#include <cmath>
#include <set>

#include <gtest/gtest.h>

#include "base/error.h"
#include "model/family.h"

namespace weft::model {
namespace {

struct Sizes {
  int64_t vocabulary, width, layers, heads, kv_heads, ffn;
};

template <class Family>
ModelNode make(
    const Sizes& sizes, void (*change)(Family&) = [](Family&) {}) {
  Family family;
  family.vocabulary = sizes.vocabulary;
  family.width = sizes.width;
  family.layers = sizes.layers;
  family.heads = sizes.heads;
  family.ffn = sizes.ffn;
  if constexpr (std::is_base_of_v<LlamaLikeFamily, Family>) family.kv_heads = sizes.kv_heads;
  change(family);
  return family.model();
}

// Numbers of parameters as the publishers give them.
TEST(Describe, CountsParametersLikeThePublishers) {
  struct Row {
    const char* name;
    ModelNode model;
    int64_t parameters;
  };
  const Row rows[] = {
      {"GPT-2 124M", make<Gpt2Family>({50257, 768, 12, 12, 12, 3072}), 124439808},
      {"GPT-2 XL", make<Gpt2Family>({50257, 1600, 48, 25, 25, 6400}), 1557611200},
      {"Llama-2-7B", make<LlamaFamily>({32000, 4096, 32, 32, 32, 11008}), 6738415616},
      {"Llama-3-8B", make<LlamaFamily>({128256, 4096, 32, 32, 8, 14336}), 8030261248},
      {"Mistral-7B-v0.1", make<MistralFamily>({32000, 4096, 32, 32, 8, 14336}), 7241732096},
      {"Qwen2-0.5B", make<Qwen2Family>({151936, 896, 24, 14, 2, 4864}, [](auto& family) { family.tied = true; }),
       494032768},
      {"Qwen3-0.6B", make<Qwen3Family>({151936, 1024, 28, 16, 8, 3072}, [](auto& family) { family.tied = true; }),
       596049920},
      {"SmolLM2-135M", make<SmolLm2Family>({49152, 576, 30, 9, 3, 1536}), 134515008},
  };
  for (const Row& row : rows) EXPECT_EQ(describe(row.model).parameter_count(), row.parameters) << row.name;
}

// nanoGPT's configuration for a CPU; its own count leaves the 64 x 128 positions out: 0.80 million.
TEST(Describe, CountsNanoGptsCharacterModel) {
  const ModelNode model = make<Gpt2Family>({65, 128, 4, 4, 4, 512}, [](Gpt2Family& family) {
    family.bias = false;
    family.positions = 64;
  });
  const ModelDescription description = describe(model);
  EXPECT_EQ(description.parameter_count(), 804096);
  EXPECT_EQ(description.parameter_count_without_embedding(), 804096 - 65 * 128 - 64 * 128);
}

TEST(Describe, LeavesOutEmbeddingAndHeadLikeQwen) {
  // Qwen3-8B: 8.2 billion, 6.95 billion without embeddings (its model card).
  const ModelDescription description = describe(make<Qwen3Family>({151936, 4096, 36, 32, 8, 12288}));
  EXPECT_EQ(description.parameter_count(), 8190735360);
  EXPECT_EQ(description.parameter_count_without_embedding(), 8190735360 - 2 * 151936LL * 4096);
}

// A matrix (out, in) sums `in` numbers an output; a row of an embedding is looked up, not summed, unless the head uses
// the table too.
TEST(Describe, FansAreThoseOfTheProduct) {
  for (const bool tied : {false, true}) {
    ModelNode model = make<Gpt2Family>({100, 24, 1, 4, 4, 40});
    if (!tied) model.head = UntiedHead{};
    for (const ParameterDescription& parameter : describe(model).parameters) {
      const std::string& path = parameter.path;
      const bool vector = parameter.shape.size() == 1;
      const bool looked_up = path == "position.weight" || (path == "embedding.weight" && !tied);
      EXPECT_EQ(parameter.fan_in, vector || looked_up ? 1 : parameter.shape[1]) << path;
      EXPECT_EQ(parameter.fan_out, looked_up ? 24 : parameter.shape[0]) << path;
      EXPECT_EQ(parameter.writes_residual,
                path == "layers.0.attention.output.weight" || path == "layers.0.mlp.down.weight")
          << path;
    }
  }
}

ModelNode every_part() {
  ModelNode model = make<Qwen3Family>({100, 24, 2, 4, 2, 40}, [](auto& family) {
    family.head_dim = 8;
    family.bias = true;
  });
  model.positions = 16;
  model.position = LearnedPositions{};
  auto& attention = dynamic_cast<GroupedQueryAttention&>(*model.layer.attention);
  attention.output_bias = true;
  attention.query_key_norm = LayerNorm{};
  return model;
}

TEST(Describe, KeepsTheOrderThatSegmentKindStates) {
  const ModelNode model = every_part();
  const ModelDescription description = describe(model);
  const auto names = [&](size_t segment) {
    std::vector<std::string> result;
    for (const int index : description.segments.at(segment).parameters) {
      result.push_back(description.parameters.at(static_cast<size_t>(index)).path);
    }
    return result;
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(names(0), (Names{"embedding.weight", "position.weight"}));
  EXPECT_EQ(names(1), (Names{"layers.0.attention_norm.weight"}));
  const std::string q = "layers.0.attention.";
  EXPECT_EQ(names(2), (Names{q + "query.weight", q + "key.weight", q + "value.weight", q + "query.bias", q + "key.bias",
                             q + "value.bias", q + "query_norm.weight", q + "query_norm.bias", q + "key_norm.weight",
                             q + "key_norm.bias"}));
  EXPECT_EQ(names(3), (Names{q + "output.weight", q + "output.bias"}));
  EXPECT_EQ(names(4), Names{});
  EXPECT_EQ(names(6), (Names{"layers.0.mlp.gate.weight", "layers.0.mlp.up.weight", "layers.0.mlp.down.weight"}));
  EXPECT_EQ(names(15), (Names{"final_norm.weight"}));
  EXPECT_EQ(names(16), (Names{"head.weight"}));
  std::vector<SegmentKind> kinds;
  for (const auto& segment : description.segments) kinds.push_back(segment.kind);
  using enum SegmentKind;
  const std::vector<SegmentKind> layer = {kNorm, kQueryKeyValue, kAttention, kResidual, kNorm, kMlp, kResidual};
  std::vector<SegmentKind> expected = {kEmbed};
  for (int i = 0; i < 2; ++i) expected.insert(expected.end(), layer.begin(), layer.end());
  expected.insert(expected.end(), {kNorm, kLogits, kLoss});
  EXPECT_EQ(kinds, expected);
}

// Every value is written once, before it is read; paths are unique; the residual stream has the right readers.
TEST(Describe, WiresSegmentsInOrder) {
  const ModelNode model = every_part();
  const ModelDescription description = describe(model);
  std::set<int> written;
  std::set<std::string> paths;
  std::vector<int> readers(description.values.size());
  for (const auto& segment : description.segments) {
    EXPECT_TRUE(paths.insert(segment.path).second) << segment.path;
    EXPECT_NE(segment.node, nullptr) << segment.path;
    for (const int input : segment.inputs) {
      EXPECT_TRUE(written.contains(input)) << segment.path;
      ++readers.at(static_cast<size_t>(input));
    }
    for (const int kept : segment.kept) {
      EXPECT_NE(std::find(segment.inputs.begin(), segment.inputs.end(), kept), segment.inputs.end()) << segment.path;
    }
    for (const int output : segment.outputs) EXPECT_TRUE(written.insert(output).second) << segment.path;
  }
  EXPECT_EQ(written.size(), description.values.size());
  for (size_t i = 0; i < readers.size(); ++i) {
    const std::string& name = description.values[i].name;
    const bool stream = name == "embedding.output" || name.find("_residual.output") != std::string::npos;
    const bool last = name == "layers.1.mlp_residual.output";
    EXPECT_EQ(readers[i], name == "loss" ? 0 : stream && !last ? 2 : 1) << name;
  }
  std::set<std::string> parameters;
  for (const auto& parameter : description.parameters) EXPECT_TRUE(parameters.insert(parameter.path).second);
}

TEST(Describe, TiesTheHeadToOneParameter) {
  const ModelNode model = make<SmolLm2Family>({49152, 576, 2, 9, 3, 1536});
  const ModelDescription description = describe(model);
  EXPECT_EQ(description.parameters.front().parameter_class, ParameterClass::kTied);
  EXPECT_EQ(description.segments.at(description.segments.size() - 2).parameters, std::vector<int>{0});
  for (const auto& parameter : description.parameters) EXPECT_NE(parameter.path, "head.weight");
}

TEST(Describe, InitialisesAndDecaysByClass) {
  const ModelNode model = every_part();
  for (const ParameterDescription& parameter : describe(model).parameters) {
    const bool output = parameter.path.ends_with("attention.output.weight") || parameter.path.ends_with("down.weight");
    const bool vector = parameter.shape.size() == 1;
    EXPECT_EQ(parameter.weight_decay, !vector) << parameter.path;
    if (vector) {
      EXPECT_EQ(parameter.parameter_class, ParameterClass::kVector) << parameter.path;
      const bool bias = parameter.path.ends_with("bias");
      EXPECT_EQ(parameter.initializer.kind, bias ? Initializer::Kind::kZeros : Initializer::Kind::kOnes);
    } else {
      EXPECT_EQ(parameter.initializer.kind, Initializer::Kind::kNormal);
      EXPECT_DOUBLE_EQ(parameter.initializer.standard_deviation, output ? 0.02 / std::sqrt(4.0) : 0.02)
          << parameter.path;
    }
  }
  ModelNode same = model;
  same.initializer.output_projections = "same";
  for (const ParameterDescription& parameter : describe(same).parameters) {
    if (parameter.shape.size() == 2) {
      EXPECT_EQ(parameter.initializer.standard_deviation, 0.02);
    }
  }
}

TEST(Describe, CutsEveryParameterWhereItsProductIsCut) {
  using Kind = TensorCut::Kind;
  const Heads heads{4, 2};
  const ModelNode model = every_part();
  for (const ParameterDescription& parameter : describe(model).parameters) {
    const auto ends = [&](std::initializer_list<const char*> names) {
      return std::ranges::any_of(names, [&](const char* name) { return parameter.path.ends_with(name); });
    };
    TensorCut expected;  // whole: norms, positions, biases of what is summed
    if (ends({"embedding.weight", "head.weight", "gate.weight", "up.weight"})) expected = {Kind::kUnits, 0, {}};
    if (ends({"down.weight"})) expected = {Kind::kUnits, 1, {}};
    if (ends({"query.weight", "query.bias"})) expected = {Kind::kQueryHeads, 0, heads};
    if (ends({"attention.output.weight"})) expected = {Kind::kQueryHeads, 1, heads};
    if (ends({"key.weight", "key.bias", "value.weight", "value.bias"})) expected = {Kind::kKeyValueHeads, 0, heads};
    EXPECT_EQ(parameter.tensor_cut, expected) << parameter.path;
  }
}

// Brute force over the mask, against the closed form.
TEST(Describe, CountsAttendedPairs) {
  for (int64_t length = 1; length <= 9; ++length) {
    for (int64_t window = 0; window <= 11; ++window) {
      int64_t pairs = 0;
      for (int64_t t = 0; t < length; ++t) {
        for (int64_t s = 0; s <= t; ++s) pairs += (window == 0 || t - s < window) ? 1 : 0;
      }
      EXPECT_EQ(attended_pairs(length, window), static_cast<double>(pairs)) << length << " " << window;
    }
  }
}

// 6 FLOPs a matrix element and token, the head included, and 12 x features for each pair a token attends to.
TEST(Describe, CountsFlopsInClosedForm) {
  const ModelNode model = make<Gpt2Family>({50257, 768, 12, 12, 12, 3072});
  const ModelDescription description = describe(model);
  const double matrices = 12.0 * 12 * 768 * 768 + 50257.0 * 768;
  EXPECT_DOUBLE_EQ(description.flops_per_token(1024), 6 * matrices + 12.0 * 12 * 768 * (1025 / 2.0));
  const ModelNode windowed = make<MistralFamily>({32000, 4096, 32, 32, 8, 14336});
  const double per_layer = 2.0 * 4096 * 4096 + 2.0 * 4096 * 1024 + 3.0 * 4096 * 14336;
  const double pairs = (4096.0 * 4097 / 2 + (8192 - 4096) * 4096.0) / 8192;
  EXPECT_DOUBLE_EQ(describe(windowed).flops_per_token(8192),
                   6 * (32 * per_layer + 32000.0 * 4096) + 32 * 12 * 4096 * pairs);
}

TEST(Describe, SaysWhichNodesDoNotFit) {
  const auto message = [](const ModelNode& model) -> std::string {
    try {
      (void)describe(model);
    } catch (const InputError& error) {
      return error.what();
    }
    return "";
  };
  ModelNode model = every_part();
  EXPECT_EQ(message(model), "");
  model.positions = 0;
  EXPECT_NE(message(model).find("model.positions"), std::string::npos);
  model = every_part();
  auto& attention = dynamic_cast<GroupedQueryAttention&>(*model.layer.attention);
  attention.kv_heads = 3;
  EXPECT_NE(message(model).find("3 key/value heads do not divide 4 heads"), std::string::npos);
  attention.kv_heads = 2;
  attention.head_dim = 7;
  EXPECT_NE(message(model).find("head_dim is 7"), std::string::npos);
  attention.head_dim = 8;
  model.width = {};
  EXPECT_NE(message(model).find("not set"), std::string::npos);
}

}  // namespace
}  // namespace weft::model
