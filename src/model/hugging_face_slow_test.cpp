// What weft writes as config.json, read by transformers: without a warning, the same tensors, the same meaning of the
// fields that the two dialects name differently.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <unistd.h>

#include <gtest/gtest.h>

#include "base/json.h"
#include "model/describe.h"
#include "model/family.h"
#include "model/hugging_face.h"

namespace weft::model {
namespace {

namespace fs = std::filesystem;

template <class Family>
ModelNode small(void (*change)(Family&) = [](Family&) {}) {
  Family family;
  family.vocabulary = 96;
  family.width = 32;
  family.layers = 2;
  family.heads = 4;
  family.ffn = 48;
  change(family);
  return family.model();
}

GroupedQueryAttention& attention_of(ModelNode& model) {
  return dynamic_cast<GroupedQueryAttention&>(*model.layer.attention);
}

template <class Rope>
ModelNode llama_with(Rope rope) {
  ModelNode model = small<LlamaFamily>([](LlamaFamily& family) { family.kv_heads = 2; });
  attention_of(model).rope = rope;
  return model;
}

struct Row {
  std::string name;
  ModelNode model;
  Json expected;
};

std::vector<Row> rows() {
  std::vector<Row> rows;
  const auto add = [&](std::string name, ModelNode model, Json expected) {
    rows.push_back({std::move(name), std::move(model), std::move(expected)});
  };
  add("gpt2", small<Gpt2Family>(), {{"n_inner", 48}, {"activation_function", "gelu_new"}, {"embd_pdrop", 0.0}});
  ModelNode erf = small<Gpt2Family>([](Gpt2Family& family) {
    family.bias = false;
    family.tied = false;
    family.dropout = 0.25;
  });
  dynamic_cast<GeluMlp&>(*erf.layer.mlp).approximation = "erf";
  attention_of(erf).scale = 1;
  add("gpt2_other", erf,
      {{"activation_function", "gelu"},
       {"scale_attn_weights", false},
       {"attn_pdrop", 0.25},
       {"tie_word_embeddings", false}});

  add("llama", small<LlamaFamily>(),
      {{"rope_parameters", {{"rope_type", "default"}, {"rope_theta", 10000.0}}}, {"dtype", "bfloat16"}});
  ModelNode biased = small<SmolLm2Family>();
  attention_of(biased).output_bias = true;
  dynamic_cast<SwiGluMlp&>(*biased.layer.mlp).bias = true;
  add("llama_biased", biased, {{"attention_bias", true}, {"mlp_bias", true}, {"tie_word_embeddings", true}});
  LinearRope linear;
  linear.factor = 4;
  add("llama_linear", llama_with(linear),
      {{"rope_parameters", {{"rope_type", "linear"}, {"rope_theta", 10000.0}, {"factor", 4.0}}}});
  Llama3Rope llama3;
  llama3.original_positions = 1024;
  add("llama_llama3", llama_with(llama3),
      {{"rope_parameters",
        {{"rope_type", "llama3"},
         {"rope_theta", 500000.0},
         {"factor", 8.0},
         {"low_freq_factor", 1.0},
         {"high_freq_factor", 4.0},
         {"original_max_position_embeddings", 1024}}}});
  YarnRope yarn;
  yarn.factor = 4;
  yarn.original_positions = 1024;
  yarn.attention_factor = 1.5;
  add("llama_yarn", llama_with(yarn),
      {{"rope_parameters",
        {{"rope_type", "yarn"},
         {"rope_theta", 10000.0},
         {"factor", 4.0},
         {"original_max_position_embeddings", 1024},
         {"attention_factor", 1.5},
         {"beta_fast", 32.0},
         {"beta_slow", 1.0},
         {"truncate", true}}}});

  add("mistral", small<MistralFamily>([](MistralFamily& family) { family.head_dim = 6; }),
      {{"sliding_window", 4096}, {"head_dim", 6}});
  add("qwen2", small<Qwen2Family>([](Qwen2Family& family) { family.head_dim = 16; }),
      {{"layer_types", {"full_attention", "full_attention"}}, {"head_dim", 16}});
  add("qwen2_window", small<Qwen2Family>([](Qwen2Family& family) { family.window = 8; }),
      {{"layer_types", {"sliding_attention", "sliding_attention"}}, {"sliding_window", 8}});
  add("qwen3", small<Qwen3Family>(), {{"attention_bias", false}, {"head_dim", 128}, {"sliding_window", nullptr}});
  add("qwen3_biased", small<Qwen3Family>([](Qwen3Family& family) { family.bias = true; }), {{"attention_bias", true}});
  return rows;
}

TEST(HuggingFaceForeign, TransformersReadsWhatIsWritten) {
  const char* python = std::getenv("WEFT_TEST_PYTHON");
  if (python == nullptr) GTEST_SKIP() << "WEFT_TEST_PYTHON (a Python with transformers) is not set";
  const fs::path folder = fs::path(testing::TempDir()) / ("weft_configs_" + std::to_string(::getpid()));
  std::string command = std::string(python) + " tests/foreign/check_configs.py";
  for (Row& row : rows()) {
    const fs::path directory = folder / row.name;
    fs::create_directories(directory);
    SpecialTokens tokens;
    tokens.begin = 1;
    tokens.end = row.name == "llama" ? std::vector<int64_t>{2, 3} : std::vector<int64_t>{2};
    const HuggingFaceFiles files = write_hugging_face_config(row.model, "bfloat16", tokens);
    Json tensors;
    for (const HuggingFaceTensor& tensor : hugging_face_tensors(describe(row.model), files.architecture)) {
      tensors[tensor.name] = tensor.shape;
    }
    row.expected["architecture"] = files.architecture;
    std::ofstream(directory / "config.json") << files.config_json;
    std::ofstream(directory / "generation_config.json") << files.generation_config_json;
    std::ofstream(directory / "tensors.json") << tensors.dump();
    std::ofstream(directory / "expected.json") << row.expected.dump();
    command += " " + directory.string();
  }
  EXPECT_EQ(std::system(command.c_str()), 0);
  fs::remove_all(folder);
}

}  // namespace
}  // namespace weft::model
