#include "model/hugging_face.h"

#include <fstream>
#include <map>
#include <set>

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/json.h"
#include "base/safetensors.h"
#include "config/tree.h"
#include "model/describe.h"
#include "model/family.h"

namespace weft::model {
namespace {

const std::string kModels = "tests/data/hf_models/";

// The differences of two trees as text; empty where they are equal.
std::string compare(const ModelNode& before, const ModelNode& after) {
  std::string text;
  for (const config::Difference& difference : config::differences(before, after)) {
    text += difference.path + ": " + difference.before + " / " + difference.after + "\n";
  }
  return text;
}

// What a mistake is answered with; empty where there is none.
template <class Action>
std::string message_of(Action action) {
  try {
    (void)action();
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST(HuggingFace, ReadsBothDialectsAndWritesWhatItReads) {
  for (const char* name : {"gpt2", "llama_tied", "llama_untied", "qwen3"}) {
    const HuggingFaceConfig read = read_hugging_face_config(kModels + name + "/config.json");
    EXPECT_TRUE(read.warnings.empty()) << name << ": " << read.warnings.front();
    const HuggingFaceConfig old = read_hugging_face_config(kModels + name + "/config_v4.json");
    EXPECT_EQ(compare(read.model, old.model), "") << name;
    EXPECT_EQ(old.dtype, "float32");
    EXPECT_EQ(read.dtype, "float32");
    EXPECT_EQ(read.tokens.begin, 1);
    EXPECT_EQ(read.tokens.end, std::vector<int64_t>{2});
    const HuggingFaceFiles written = write_hugging_face_config(read.model, "float32", read.tokens);
    EXPECT_EQ(written.architecture, read.architecture);
    const HuggingFaceConfig again = parse_hugging_face_config(written.config_json, "written");
    EXPECT_TRUE(again.warnings.empty()) << name << ": " << again.warnings.front();
    EXPECT_EQ(again.tokens.padding, read.tokens.padding);
    if (read.architecture != "GPT2LMHeadModel") {
      // How fresh matrices are drawn is not in config.json beyond their deviation: each architecture has its own rule.
      EXPECT_EQ(read.model.initializer.output_projections, "same");
    }
    EXPECT_EQ(compare(read.model, again.model), "") << name;
  }
}

// Every tensor of the files that save_pretrained wrote is one of the table, with its shape, and the other way round;
// every parameter is in exactly one tensor.
TEST(HuggingFace, NamesTheTensorsOfTheFiles) {
  for (const char* name : {"gpt2", "llama_tied", "llama_untied", "qwen3"}) {
    const HuggingFaceConfig read = read_hugging_face_config(kModels + name + "/config.json");
    const ModelDescription description = describe(read.model);
    std::map<std::string, std::vector<int64_t>> expected;
    std::ifstream file(kModels + name + "/model.safetensors", std::ios::binary);
    std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    const uint64_t length = safetensors_header_length(bytes, bytes.size(), name);
    for (const StoredTensor& tensor :
         parse_safetensors_header(std::string_view(bytes).substr(8, length), bytes.size(), name).tensors) {
      expected[tensor.name] = tensor.shape;
    }
    std::map<std::string, std::vector<int64_t>> found;
    std::multiset<int> parameters;
    for (const HuggingFaceTensor& tensor : hugging_face_tensors(description, read.architecture)) {
      found[tensor.name] = tensor.shape;
      EXPECT_FALSE(tensor.parameters.empty()) << tensor.name;
      parameters.insert(tensor.parameters.begin(), tensor.parameters.end());
      EXPECT_TRUE(tensor.name.ends_with(tensor.short_name));
    }
    EXPECT_EQ(found, expected) << name;
    EXPECT_EQ(parameters.size(), description.parameters.size()) << name;
    EXPECT_EQ(std::set<int>(parameters.begin(), parameters.end()).size(), parameters.size()) << name;
  }
}

struct Published {
  const char* name;
  const char* config;
  int64_t parameters;
};

// As published: fields of older versions, fields that do not matter, fields left out.
const Published kPublished[] = {
    {"gpt2",
     R"({"activation_function":"gelu_new","architectures":["GPT2LMHeadModel"],"attn_pdrop":0.1,"bos_token_id":50256,
         "embd_pdrop":0.1,"eos_token_id":50256,"initializer_range":0.02,"layer_norm_epsilon":1e-05,"model_type":"gpt2",
         "n_ctx":1024,"n_embd":768,"n_head":12,"n_layer":12,"n_positions":1024,"resid_pdrop":0.1,"summary_activation":null,
         "summary_first_dropout":0.1,"summary_proj_to_labels":true,"summary_type":"cls_index","summary_use_proj":true,
         "task_specific_params":{"text-generation":{"do_sample":true,"max_length":50}},"vocab_size":50257})",
     124439808},
    {"Mistral-7B-v0.1",
     R"({"architectures":["MistralForCausalLM"],"bos_token_id":1,"eos_token_id":2,"hidden_act":"silu","hidden_size":4096,
         "initializer_range":0.02,"intermediate_size":14336,"max_position_embeddings":32768,"model_type":"mistral",
         "num_attention_heads":32,"num_hidden_layers":32,"num_key_value_heads":8,"rms_norm_eps":1e-05,"rope_theta":10000.0,
         "sliding_window":4096,"tie_word_embeddings":false,"torch_dtype":"bfloat16","transformers_version":"4.34.0.dev0",
         "use_cache":true,"vocab_size":32000})",
     7241732096},
    {"Qwen2-0.5B",
     R"({"architectures":["Qwen2ForCausalLM"],"attention_dropout":0.0,"bos_token_id":151643,"eos_token_id":151643,
         "hidden_act":"silu","hidden_size":896,"initializer_range":0.02,"intermediate_size":4864,
         "max_position_embeddings":131072,"max_window_layers":24,"model_type":"qwen2","num_attention_heads":14,
         "num_hidden_layers":24,"num_key_value_heads":2,"rms_norm_eps":1e-06,"rope_theta":1000000.0,"sliding_window":131072,
         "tie_word_embeddings":true,"torch_dtype":"bfloat16","transformers_version":"4.40.1","use_cache":true,
         "use_sliding_window":false,"vocab_size":151936})",
     494032768},
    {"Llama-3.2-1B",
     R"({"architectures":["LlamaForCausalLM"],"attention_bias":false,"attention_dropout":0.0,"bos_token_id":128000,
         "eos_token_id":[128001,128008,128009],"head_dim":64,"hidden_act":"silu","hidden_size":2048,
         "initializer_range":0.02,"intermediate_size":8192,"max_position_embeddings":131072,"mlp_bias":false,
         "model_type":"llama","num_attention_heads":32,"num_hidden_layers":16,"num_key_value_heads":8,"pretraining_tp":1,
         "rms_norm_eps":1e-05,"rope_scaling":{"factor":32.0,"high_freq_factor":4.0,"low_freq_factor":1.0,
         "original_max_position_embeddings":8192,"rope_type":"llama3"},"rope_theta":500000.0,"tie_word_embeddings":true,
         "torch_dtype":"bfloat16","transformers_version":"4.45.0.dev0","use_cache":true,"vocab_size":128256})",
     1235814400},
    {"SmolLM2-135M",
     R"({"architectures":["LlamaForCausalLM"],"attention_bias":false,"attention_dropout":0.0,"bos_token_id":0,
         "eos_token_id":0,"hidden_act":"silu","hidden_size":576,"initializer_range":0.041666666666666664,
         "intermediate_size":1536,"is_llama_config":true,"max_position_embeddings":8192,"model_type":"llama",
         "num_attention_heads":9,"num_hidden_layers":30,"num_key_value_heads":3,"pretraining_tp":1,"rms_norm_eps":1e-05,
         "rope_interleaved":false,"rope_scaling":null,"rope_theta":100000,"tie_word_embeddings":true,
         "torch_dtype":"bfloat16","transformers_version":"4.40.1","use_cache":true,"vocab_size":49152})",
     134515008},
};

TEST(HuggingFace, ReadsPublishedConfigurations) {
  for (const Published& row : kPublished) {
    const HuggingFaceConfig read = parse_hugging_face_config(row.config, row.name);
    EXPECT_TRUE(read.warnings.empty()) << read.warnings.front();
    EXPECT_EQ(describe(read.model).parameter_count(), row.parameters) << row.name;
    const HuggingFaceFiles written = write_hugging_face_config(read.model, "bfloat16", read.tokens);
    EXPECT_EQ(written.architecture, read.architecture);
    const HuggingFaceConfig again = parse_hugging_face_config(written.config_json, row.name);
    EXPECT_EQ(compare(read.model, again.model), "") << row.name;
    EXPECT_EQ(again.tokens.end, read.tokens.end);
  }
}

Json base_config(const std::string& directory) { return read_json_file(kModels + directory + "/config.json"); }

constexpr auto kEpsilons =
    "final_norm.epsilon: 1e-05 / 0.5\nlayer.attention_norm.epsilon: 1e-05 / 0.5\nlayer.mlp_norm.epsilon: 1e-05 / 0.5\n";

struct Change {
  const char* model;  // a directory whose config.json is changed
  const char* key;    // "rope_parameters.factor": of the table
  Json value;
  const char* expected;  // in the message
};

Json changed(const Change& change) {
  Json config = base_config(change.model);
  if (std::string(config["model_type"]) == "llama" && std::string(change.model) == "llama_tied")
    config.erase("layer_types");
  const std::string key = change.key;
  const size_t dot = key.find('.');
  (dot == std::string::npos ? config[key] : config[key.substr(0, dot)][key.substr(dot + 1)]) = change.value;
  return config;
}

TEST(HuggingFace, RefusesByNameWhatItDoesNotCompute) {
  const Change rows[] = {
      {"gpt2", "scale_attn_by_inverse_layer_idx", true,
       "scale_attn_by_inverse_layer_idx: is true; only false is supported"},
      {"gpt2", "add_cross_attention", true, "add_cross_attention: is true"},
      {"gpt2", "activation_function", "relu", "activation_function: is \"relu\"; supported are \"gelu_new\""},
      {"gpt2", "n_head", 5, "n_head: is 5; it must divide the width 48"},
      {"gpt2", "n_inner", -4, "n_inner: is -4"},
      {"gpt2", "n_embd", "48", "n_embd"},
      {"gpt2", "n_embd", int64_t{1} << 40, "n_embd: is 1099511627776; it must be from 1 to 1048576"},
      {"gpt2", "n_layer", nullptr, "n_layer: expected an integer, found null"},
      {"gpt2", "layer_norm_epsilon", 0, "layer_norm_epsilon: is 0; it must be above 0"},
      {"gpt2", "resid_pdrop", 1.5, "resid_pdrop: is 1.5"},
      {"gpt2", "pruned_heads", {{"0", {1}}}, "pruned_heads: is set"},
      {"gpt2", "architectures", {"GPT2DoubleHeadsModel"}, "architectures: is \"GPT2DoubleHeadsModel\"; supported are"},
      {"gpt2", "model_type", "llama", "model_type: is \"llama\""},
      {"llama_tied", "hidden_act", "gelu", "hidden_act: is \"gelu\"; supported is \"silu\""},
      {"llama_tied", "quantization_config", {{"bits", 4}}, "quantization_config: is set"},
      {"llama_tied", "auto_map", {{"AutoModel", "x.Y"}}, "auto_map: is set"},
      {"llama_tied", "num_key_value_heads", 3, "num_key_value_heads: is 3; it must divide 4 heads"},
      {"llama_tied", "head_dim", 15, "head_dim: gives heads of 15 features"},
      {"llama_tied", "partial_rotary_factor", 0.5, "partial_rotary_factor: is 0.5; only 1"},
      {"llama_tied", "rope_parameters.partial_rotary_factor", 0.25, "rope_parameters.partial_rotary_factor: is 0.25"},
      {"llama_tied", "rope_parameters.rope_type", "dynamic",
       "rope_parameters.rope_type: is \"dynamic\"; supported are"},
      {"llama_tied", "rope_parameters.rope_type", "longrope", "rope_parameters.rope_type: is \"longrope\""},
      {"llama_tied", "rope_parameters.factor", 0.5, "rope_parameters.factor: is 0.5; it must be at least 1"},
      {"llama_tied", "rope_parameters.high_freq_factor", 1.0, "rope_parameters.high_freq_factor: must be above"},
      {"llama_tied", "rope_parameters.low_freq_factor", nullptr,
       "rope_parameters.low_freq_factor: expected a number, found null"},
      {"llama_tied", "rope_scaling", {{"full_attention", {{"rope_type", "default"}}}}, "rope_scaling.full_attention"},
      {"llama_tied", "rope_interleaved", true, "rope_interleaved: is true"},
      {"llama_tied", "rms_norm_eps", -1e-5, "rms_norm_eps: is -1e-05"},
      {"llama_tied", "is_encoder_decoder", true, "is_encoder_decoder: is true"},
      {"llama_tied", "tie_word_embeddings", "yes", "tie_word_embeddings"},
      {"qwen3", "layer_types", {"full_attention", "sliding_attention"}, "layer_types: has \"sliding_attention\""},
      {"qwen3", "layer_types", {"full_attention"}, "layer_types: has 1 entries for 2 layers"},
      {"qwen3", "architectures", {"Qwen3MoeForCausalLM"}, "architectures: is \"Qwen3MoeForCausalLM\""},
  };
  for (const Change& row : rows) {
    const std::string text = changed(row).dump();
    const std::string message = message_of([&] { return parse_hugging_face_config(text, "DIR/config.json"); });
    EXPECT_NE(message.find(row.expected), std::string::npos) << row.key << ": " << message;
    EXPECT_TRUE(message.starts_with("DIR/config.json: ")) << message;
  }
}

// Fields that change numbers and are honoured: the tree differs from the unchanged one in exactly these places.
TEST(HuggingFace, HonoursFields) {
  const Change rows[] = {
      {"gpt2", "n_inner", 100, "layer.mlp.ffn: 192 / 100\n"},
      {"gpt2", "activation_function", "gelu", "layer.mlp.approximation: \"tanh\" / \"erf\"\n"},
      {"gpt2", "scale_attn_weights", false, "layer.attention.scale: (not set) / 1.0\n"},
      {"gpt2", "tie_word_embeddings", false, "head.kind: \"tied\" / \"untied\"\n"},
      {"gpt2", "layer_norm_epsilon", 0.5, kEpsilons},
      {"gpt2", "attn_pdrop", 0.25, "layer.attention.dropout: 0.1 / 0.25\n"},
      {"gpt2", "embd_pdrop", 0, "embedding.dropout: 0.1 / 0.0\n"},
      {"gpt2", "resid_pdrop", 0,
       "layer.attention_residual.dropout: 0.1 / 0.0\nlayer.mlp_residual.dropout: 0.1 / 0.0\n"},
      {"gpt2", "reorder_and_upcast_attn", true, ""},
      {"llama_tied", "attention_bias", true,
       "layer.attention.bias: false / true\nlayer.attention.output_bias: false / true\n"},
      {"llama_tied", "mlp_bias", true, "layer.mlp.bias: false / true\n"},
      {"llama_tied", "head_dim", nullptr, ""},
      {"llama_tied", "num_key_value_heads", nullptr, "layer.attention.kv_heads: 2 / 4\n"},
      {"llama_tied", "rms_norm_eps", 0.5, kEpsilons},
      {"llama_tied", "rope_parameters.rope_theta", 7, "layer.attention.rope.theta: 500000.0 / 7.0\n"},
      {"llama_tied", "rope_theta", 7, ""},  // the table's own goes before it
      {"llama_tied", "original_max_position_embeddings", 32, "layer.attention.rope.original_positions: 16 / 32\n"},
      {"llama_tied", "rope_parameters.original_max_position_embeddings", nullptr,
       "layer.attention.rope.original_positions: 16 / 128\n"},
      {"llama_tied", "pretraining_tp", 2, ""},
      {"qwen3", "attention_dropout", 0.5, "layer.attention.dropout: 0.0 / 0.5\n"},
      {"qwen3", "initializer_range", 0.5, "initializer.standard_deviation: 0.12 / 0.5\n"},
      {"qwen3", "max_position_embeddings", 64, "positions: 128 / 64\n"},
      {"qwen3", "sliding_window", 8, ""},  // not switched on
  };
  for (const Change& row : rows) {
    const HuggingFaceConfig before = parse_hugging_face_config(base_config(row.model).dump(), "before");
    const HuggingFaceConfig after = parse_hugging_face_config(changed(row).dump(), "after");
    EXPECT_EQ(compare(before.model, after.model), row.expected) << row.key;
    EXPECT_TRUE(after.warnings.empty()) << after.warnings.front();
  }
}

TEST(HuggingFace, ReadsWindows) {
  const auto window_of = [](const Json& config) {
    const HuggingFaceConfig read = parse_hugging_face_config(config.dump(), "row");
    return dynamic_cast<const GroupedQueryAttention&>(*read.model.layer.attention).window;
  };
  Json mistral = Json::parse(kPublished[1].config);
  EXPECT_EQ(window_of(mistral), 4096);
  mistral["sliding_window"] = nullptr;
  EXPECT_EQ(window_of(mistral), 0);
  mistral.erase("sliding_window");
  EXPECT_EQ(window_of(mistral), 4096);  // transformers' default
  Json qwen = base_config("qwen3");
  qwen["use_sliding_window"] = true;
  qwen["sliding_window"] = 8;
  EXPECT_EQ(window_of(qwen), 0);  // layer_types says full attention
  qwen["layer_types"] = {"sliding_attention", "sliding_attention"};
  EXPECT_EQ(window_of(qwen), 8);
  qwen.erase("layer_types");
  EXPECT_EQ(window_of(qwen), 0);  // max_window_layers is 28: the first 28 layers have none
  qwen["max_window_layers"] = 0;
  EXPECT_EQ(window_of(qwen), 8);
  qwen["max_window_layers"] = 1;
  EXPECT_NE(message_of([&] {
              return window_of(qwen);
            }).find("max_window_layers: gives a window of 8 tokens to 1 of 2 layers"),
            std::string::npos);
}

TEST(HuggingFace, WarnsOfUnknownFieldsByName) {
  Json config = base_config("llama_tied");
  config["embedding_multiplier"] = 12.0;
  config["rope_parameters"]["strange"] = 1;
  const HuggingFaceConfig read = parse_hugging_face_config(config.dump(), "c.json");
  ASSERT_EQ(read.warnings.size(), 2u);
  EXPECT_EQ(read.warnings[0], "c.json: rope_parameters.strange: not known to weft, not used");
  EXPECT_EQ(read.warnings[1], "c.json: embedding_multiplier: not known to weft for LlamaForCausalLM, not used");
}

TEST(HuggingFace, RefusesBrokenText) {
  for (const char* text :
       {"", "[]", "{", "{\"architectures\": 3}", "{\"architectures\": []}", "{\"model_type\": \"bert\"}", "null"}) {
    EXPECT_NE(message_of([&] { return parse_hugging_face_config(text, "c.json"); }).find("c.json"), std::string::npos)
        << text;
  }
  EXPECT_NE(message_of([] { return read_hugging_face_config("tests/data/hf_models/none/config.json"); }), "");
}

template <class Family>
ModelNode small() {
  Family family;
  family.vocabulary = 96;
  family.width = 32;
  family.layers = 2;
  family.heads = 4;
  family.ffn = 48;
  return family.model();
}

// A GPT-2 without biases, as nanoGPT trains: the file's biases are zeros.
TEST(HuggingFace, WritesZerosForBiasesThatTheModelLacks) {
  Gpt2Family family;
  family.vocabulary = 65;
  family.width = 32;
  family.layers = 1;
  family.heads = 4;
  family.bias = false;
  const ModelNode model = family.model();
  const HuggingFaceFiles files = write_hugging_face_config(model, "float32", {});
  std::map<std::string, std::vector<int64_t>> zeros;
  for (const HuggingFaceTensor& tensor : hugging_face_tensors(describe(model), files.architecture)) {
    if (tensor.parameters.empty()) zeros[tensor.name] = tensor.shape;
  }
  const std::string layer = "transformer.h.0.";
  const std::map<std::string, std::vector<int64_t>> expected = {
      {layer + "ln_1.bias", {32}},    {layer + "attn.c_attn.bias", {96}}, {layer + "attn.c_proj.bias", {32}},
      {layer + "ln_2.bias", {32}},    {layer + "mlp.c_fc.bias", {128}},   {layer + "mlp.c_proj.bias", {32}},
      {"transformer.ln_f.bias", {32}}};
  EXPECT_EQ(zeros, expected);
}

TEST(HuggingFace, ChoosesTheArchitecture) {
  const auto architecture = [](const ModelNode& model) {
    return write_hugging_face_config(model, "float32", {}).architecture;
  };
  EXPECT_EQ(architecture(small<Gpt2Family>()), "GPT2LMHeadModel");
  EXPECT_EQ(architecture(small<LlamaFamily>()), "LlamaForCausalLM");
  EXPECT_EQ(architecture(small<MistralFamily>()), "MistralForCausalLM");
  EXPECT_EQ(architecture(small<Qwen2Family>()), "Qwen2ForCausalLM");
  EXPECT_EQ(architecture(small<Qwen3Family>()), "Qwen3ForCausalLM");
  EXPECT_EQ(architecture(small<SmolLm2Family>()), "LlamaForCausalLM");
}

TEST(HuggingFace, SaysWhyAModelCannotBeWritten) {
  struct Row {
    ModelNode model;
    void (*change)(ModelNode&);
    const char* expected;
  };
  const auto attention = [](ModelNode& model) -> GroupedQueryAttention& {
    return dynamic_cast<GroupedQueryAttention&>(*model.layer.attention);
  };
  static const auto attention_of = attention;
  const Row rows[] = {
      {small<LlamaFamily>(), [](ModelNode& model) { model.embedding.multiplier = 12; },
       "model.embedding.multiplier is 12"},
      {small<LlamaFamily>(), [](ModelNode& model) { model.head->multiplier = 2; }, "model.head.multiplier is 2"},
      {small<LlamaFamily>(), [](ModelNode& model) { model.layer.mlp_residual.multiplier = 0.5; },
       "mlp_residual.multiplier"},
      {small<LlamaFamily>(), [](ModelNode& model) { attention_of(model).scale = 1; },
       "model.layer.attention.scale is 1"},
      {small<LlamaFamily>(), [](ModelNode& model) { attention_of(model).rope = {}; }, "without a rotation"},
      {small<LlamaFamily>(), [](ModelNode& model) { model.position = LearnedPositions{}; }, "learned positions"},
      {small<LlamaFamily>(), [](ModelNode& model) { model.final_norm = LayerNorm{}; }, "norms are of different kinds"},
      {small<LlamaFamily>(),
       [](ModelNode& model) {
         RmsNorm norm;
         norm.epsilon = 1;
         model.final_norm = norm;
       },
       "different epsilons"},
      {small<Qwen3Family>(), [](ModelNode& model) { attention_of(model).query_key_norm = LayerNorm{}; },
       "norms of queries"},
      {small<Qwen3Family>(), [](ModelNode& model) { dynamic_cast<SwiGluMlp&>(*model.layer.mlp).bias = true; },
       "(Qwen3)"},
      {small<MistralFamily>(), [](ModelNode& model) { attention_of(model).output_bias = true; }, "a window"},
      {small<Gpt2Family>(), [](ModelNode& model) { attention_of(model).rope = PlainRope{}; }, "with a rotation"},
      {small<Gpt2Family>(), [](ModelNode& model) { model.position = {}; }, "without learned positions"},
      {small<Gpt2Family>(), [](ModelNode& model) { attention_of(model).kv_heads = 2; }, "fewer key/value heads"},
      {small<Gpt2Family>(), [](ModelNode& model) { attention_of(model).head_dim = 4; }, "heads x head_dim"},
      {small<Gpt2Family>(), [](ModelNode& model) { attention_of(model).window = 4; }, "window"},
      {small<Gpt2Family>(), [](ModelNode& model) { attention_of(model).scale = 0.5; }, "attention.scale is 0.5"},
  };
  for (Row row : rows) {
    row.change(row.model);
    const std::string message = message_of([&] { return write_hugging_face_config(row.model, "float32", {}); });
    EXPECT_TRUE(message.starts_with("no Hugging Face architecture computes this model: ")) << row.expected;
    EXPECT_NE(message.find(row.expected), std::string::npos) << message;
  }
}

}  // namespace
}  // namespace weft::model
