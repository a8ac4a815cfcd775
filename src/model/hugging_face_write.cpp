#include <fmt/format.h>

#include "base/error.h"
#include "base/json.h"
#include "model/hugging_face.h"

namespace weft::model {
namespace {

// What max_position_embeddings says where the model has no limit; with a rotation it limits nothing.
constexpr int64_t kUnlimitedPositions = 131072;

[[noreturn]] void refuse(std::string_view what) {
  throw InputError(fmt::format("no Hugging Face architecture computes this model: {}", what));
}

void demand_one(double multiplier, std::string_view path) {
  if (multiplier != 1) refuse(fmt::format("{} is {}; only 1 can be expressed", path, multiplier));
}

// All norms of the model must be of one type with one epsilon.
template <class Norm>
std::optional<double> common_epsilon(const ModelNode& model) {
  std::optional<double> epsilon;
  for (const NormNode* node : {model.layer.attention_norm.get(), model.layer.mlp_norm.get(), model.final_norm.get()}) {
    const auto* norm = dynamic_cast<const Norm*>(node);
    if (norm == nullptr) return std::nullopt;
    if (epsilon && *epsilon != norm->epsilon) refuse("its norms have different epsilons");
    epsilon = norm->epsilon;
  }
  return epsilon;
}

const GroupedQueryAttention& attention_of(const ModelNode& model) {
  const auto* attention = dynamic_cast<const GroupedQueryAttention*>(model.layer.attention.get());
  if (attention == nullptr) {
    refuse(fmt::format("its attention is of kind \"{}\", not \"grouped_query\"", model.layer.attention->kind()));
  }
  return *attention;
}

void check_multipliers(const ModelNode& model) {
  demand_one(model.embedding.multiplier, "model.embedding.multiplier");
  demand_one(model.layer.attention_residual.multiplier, "model.layer.attention_residual.multiplier");
  demand_one(model.layer.mlp_residual.multiplier, "model.layer.mlp_residual.multiplier");
  demand_one(model.head->multiplier, "model.head.multiplier");
}

void write_tokens(OrderedJson& json, const SpecialTokens& tokens) {
  if (tokens.begin) json["bos_token_id"] = *tokens.begin;
  if (tokens.end.size() == 1) json["eos_token_id"] = tokens.end.front();
  if (tokens.end.size() > 1) json["eos_token_id"] = tokens.end;
  if (tokens.padding) json["pad_token_id"] = *tokens.padding;
}

// What stands in every config.json. The ids are written as null where there are none: transformers would otherwise put
// those of its default vocabulary, which lie beyond a small one.
OrderedJson begin(std::string_view architecture, std::string_view model_type, const ModelNode& model,
                  std::string_view dtype, const SpecialTokens& tokens) {
  OrderedJson json;
  json["architectures"] = {architecture};
  json["model_type"] = model_type;
  json["dtype"] = dtype;
  json["torch_dtype"] = dtype;
  json["bos_token_id"] = nullptr;
  json["eos_token_id"] = nullptr;
  json["pad_token_id"] = nullptr;
  write_tokens(json, tokens);
  json["vocab_size"] = model.vocabulary.get();
  json["tie_word_embeddings"] = model.head->tied();
  json["initializer_range"] = model.initializer.standard_deviation;
  json["use_cache"] = true;
  return json;
}

// --- GPT-2 -----------------------------------------------------------------------------------------------------------

OrderedJson gpt2(const ModelNode& model, std::string_view dtype, const SpecialTokens& tokens, double epsilon) {
  const GroupedQueryAttention& attention = attention_of(model);
  const auto* mlp = dynamic_cast<const GeluMlp*>(model.layer.mlp.get());
  if (mlp == nullptr)
    refuse(fmt::format("LayerNorm (GPT-2) with an MLP of kind \"{}\", not \"gelu\"", model.layer.mlp->kind()));
  if (!model.position) refuse("LayerNorm (GPT-2) without learned positions");
  if (attention.rope) refuse("LayerNorm (GPT-2) with a rotation (rope)");
  if (attention.query_key_norm) refuse("LayerNorm (GPT-2) with norms of queries and keys");
  if (attention.kv_heads.get() != attention.heads.get())
    refuse("LayerNorm (GPT-2) with fewer key/value heads than heads");
  if (attention.heads * attention.head_dim != model.width.get())
    refuse("LayerNorm (GPT-2) with heads x head_dim other than width");
  if (attention.window != 0) refuse("LayerNorm (GPT-2) with an attention window");
  const bool scaled = !attention.scale || *attention.scale == attention.natural_scale();
  if (!scaled && *attention.scale != 1) {
    refuse(fmt::format("model.layer.attention.scale is {}; GPT-2 has 1 / sqrt(head_dim) or 1", *attention.scale));
  }
  if (model.layer.attention_residual.dropout != model.layer.mlp_residual.dropout) {
    refuse("LayerNorm (GPT-2) with different dropouts behind attention and MLP");
  }
  OrderedJson json = begin("GPT2LMHeadModel", "gpt2", model, dtype, tokens);
  json["n_embd"] = model.width.get();
  json["n_layer"] = model.layers.get();
  json["n_head"] = attention.heads.get();
  json["n_positions"] = model.positions;
  json["n_ctx"] = model.positions;
  json["n_inner"] = mlp->ffn.get();
  json["activation_function"] = mlp->approximation == "erf" ? "gelu" : "gelu_new";
  json["layer_norm_epsilon"] = epsilon;
  json["embd_pdrop"] = model.embedding.dropout;
  json["attn_pdrop"] = attention.dropout;
  json["resid_pdrop"] = model.layer.attention_residual.dropout;
  json["scale_attn_weights"] = scaled;
  json["scale_attn_by_inverse_layer_idx"] = false;
  json["reorder_and_upcast_attn"] = false;
  json["add_cross_attention"] = false;
  return json;
}

// --- Llama and its like ----------------------------------------------------------------------------------------------

// The settings without theta; null for a plain rotation.
OrderedJson rope_scaling(const RopeNode& rope) {
  OrderedJson json;
  if (const auto* linear = dynamic_cast<const LinearRope*>(&rope)) {
    json["rope_type"] = "linear";
    json["factor"] = linear->factor;
  } else if (const auto* llama3 = dynamic_cast<const Llama3Rope*>(&rope)) {
    json["rope_type"] = "llama3";
    json["factor"] = llama3->factor;
    json["low_freq_factor"] = llama3->low_frequency_factor;
    json["high_freq_factor"] = llama3->high_frequency_factor;
    json["original_max_position_embeddings"] = llama3->original_positions;
  } else if (const auto* yarn = dynamic_cast<const YarnRope*>(&rope)) {
    json["rope_type"] = "yarn";
    json["factor"] = yarn->factor;
    json["original_max_position_embeddings"] = yarn->original_positions;
    json["attention_factor"] = yarn->effective_attention_factor();
    json["beta_fast"] = yarn->beta_fast;
    json["beta_slow"] = yarn->beta_slow;
    json["truncate"] = yarn->truncate;
  } else if (dynamic_cast<const PlainRope*>(&rope) == nullptr) {
    refuse(fmt::format("its rotation is of kind \"{}\"", rope.kind()));
  }
  return json;
}

double theta_of(const RopeNode& rope) {
  if (const auto* linear = dynamic_cast<const LinearRope*>(&rope)) return linear->theta;
  if (const auto* llama3 = dynamic_cast<const Llama3Rope*>(&rope)) return llama3->theta;
  if (const auto* yarn = dynamic_cast<const YarnRope*>(&rope)) return yarn->theta;
  return dynamic_cast<const PlainRope&>(rope).theta;
}

void write_rope(OrderedJson& json, const RopeNode& rope) {
  const OrderedJson scaling = rope_scaling(rope);
  OrderedJson parameters = scaling.is_null() ? OrderedJson{{"rope_type", "default"}} : scaling;
  parameters["rope_theta"] = theta_of(rope);
  json["rope_parameters"] = parameters;
  json["rope_theta"] = theta_of(rope);
  json["rope_scaling"] = scaling;
}

enum class Llama { kLlama, kMistral, kQwen2, kQwen3 };

Llama choose(const ModelNode& model, const GroupedQueryAttention& attention, const SwiGluMlp& mlp) {
  if (attention.query_key_norm) {
    if (mlp.bias) refuse("norms of queries and keys (Qwen3) with biases in the MLP");
    return Llama::kQwen3;
  }
  // transformers refuses a Llama whose width the heads do not divide, and gives it no window.
  const bool plain = attention.window == 0 && model.width % attention.heads == 0;
  if (attention.bias && !attention.output_bias && !mlp.bias) return Llama::kQwen2;
  if (plain) return Llama::kLlama;
  if (attention.bias || attention.output_bias || mlp.bias) {
    refuse("a window, or heads that do not divide the width, with these biases");
  }
  return Llama::kMistral;
}

void write_window(OrderedJson& json, Llama kind, const ModelNode& model, int64_t window) {
  if (kind == Llama::kLlama) return;
  json["sliding_window"] = window != 0 ? OrderedJson(window) : OrderedJson(nullptr);
  if (kind == Llama::kMistral) return;
  json["use_sliding_window"] = window != 0;
  json["max_window_layers"] = window != 0 ? 0 : model.layers.get();
  json["layer_types"] = OrderedJson::array();
  for (int64_t layer = 0; layer < model.layers; ++layer) {
    json["layer_types"].push_back(window != 0 ? "sliding_attention" : "full_attention");
  }
}

OrderedJson llama_like(const ModelNode& model, std::string_view dtype, const SpecialTokens& tokens, double epsilon) {
  const GroupedQueryAttention& attention = attention_of(model);
  const auto* mlp = dynamic_cast<const SwiGluMlp*>(model.layer.mlp.get());
  if (mlp == nullptr)
    refuse(fmt::format("RMSNorm (Llama) with an MLP of kind \"{}\", not \"swiglu\"", model.layer.mlp->kind()));
  if (model.position) refuse("RMSNorm (Llama) with learned positions");
  if (!attention.rope) refuse("RMSNorm (Llama) without a rotation (rope)");
  if (attention.scale && *attention.scale != attention.natural_scale()) {
    refuse(fmt::format("model.layer.attention.scale is {}; Llama has 1 / sqrt(head_dim)", *attention.scale));
  }
  if (attention.query_key_norm) {
    const auto* norm = dynamic_cast<const RmsNorm*>(attention.query_key_norm.get());
    if (norm == nullptr || norm->epsilon != epsilon)
      refuse("norms of queries and keys that are not those of the layers");
  }
  constexpr std::string_view kArchitectures[] = {"LlamaForCausalLM", "MistralForCausalLM", "Qwen2ForCausalLM",
                                                 "Qwen3ForCausalLM"};
  constexpr std::string_view kTypes[] = {"llama", "mistral", "qwen2", "qwen3"};
  const Llama kind = choose(model, attention, *mlp);
  const auto index = static_cast<size_t>(kind);
  OrderedJson json = begin(kArchitectures[index], kTypes[index], model, dtype, tokens);
  json["hidden_size"] = model.width.get();
  json["intermediate_size"] = mlp->ffn.get();
  json["num_hidden_layers"] = model.layers.get();
  json["num_attention_heads"] = attention.heads.get();
  json["num_key_value_heads"] = attention.kv_heads.get();
  json["head_dim"] = attention.head_dim.get();
  json["max_position_embeddings"] = model.positions != 0 ? model.positions : kUnlimitedPositions;
  json["hidden_act"] = "silu";
  json["rms_norm_eps"] = epsilon;
  json["attention_dropout"] = attention.dropout;
  if (kind == Llama::kLlama || kind == Llama::kQwen3) json["attention_bias"] = attention.bias || attention.output_bias;
  if (kind == Llama::kLlama) json["mlp_bias"] = mlp->bias;
  if (kind == Llama::kLlama) json["pretraining_tp"] = 1;
  write_rope(json, *attention.rope);
  write_window(json, kind, model, attention.window);
  return json;
}

}  // namespace

HuggingFaceFiles write_hugging_face_config(const ModelNode& model, std::string_view dtype,
                                           const SpecialTokens& tokens) {
  check(model);
  check_multipliers(model);
  OrderedJson json;
  if (const auto layer_norm = common_epsilon<LayerNorm>(model)) {
    json = gpt2(model, dtype, tokens, *layer_norm);
  } else if (const auto rms_norm = common_epsilon<RmsNorm>(model)) {
    json = llama_like(model, dtype, tokens, *rms_norm);
  } else {
    refuse("its norms are of different kinds");
  }
  OrderedJson generation;
  generation["_from_model_config"] = true;
  write_tokens(generation, tokens);
  HuggingFaceFiles files;
  files.architecture = json["architectures"].at(0).get<std::string>();
  files.config_json = dump_json(json, 2) + "\n";
  files.generation_config_json = dump_json(generation, 2) + "\n";
  return files;
}

}  // namespace weft::model
