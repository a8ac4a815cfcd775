#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/json.h"
#include "model/hugging_face.h"
#include "model/hugging_face_fields.h"

namespace weft::model {
namespace {

using Fields = HuggingFaceFields;

// What transformers falls back to where a field is absent, and what an architecture has.
struct LlamaLike {
  std::string_view architecture, model_type;
  int64_t kv_heads = 0;               // 0: as many as heads
  int64_t head_dim = 0;               // 0: width / heads
  bool attention_bias_field = false;  // attention_bias puts biases on all four projections
  bool mlp_bias_field = false;
  bool query_key_value_bias = false;
  bool query_key_norm = false;
  enum class Window { kNone, kAlways, kSwitched } window = Window::kNone;
};

constexpr auto kLlamaLike = std::to_array<LlamaLike>({
    {.architecture = "LlamaForCausalLM", .model_type = "llama", .attention_bias_field = true, .mlp_bias_field = true},
    {.architecture = "MistralForCausalLM",
     .model_type = "mistral",
     .kv_heads = 8,
     .window = LlamaLike::Window::kAlways},
    {.architecture = "Qwen2ForCausalLM",
     .model_type = "qwen2",
     .kv_heads = 32,
     .query_key_value_bias = true,
     .window = LlamaLike::Window::kSwitched},
    {.architecture = "Qwen3ForCausalLM",
     .model_type = "qwen3",
     .kv_heads = 32,
     .head_dim = 128,
     .attention_bias_field = true,
     .query_key_norm = true,
     .window = LlamaLike::Window::kSwitched},
});

constexpr std::string_view kGpt2 = "GPT2LMHeadModel";

// --- sliding windows -------------------------------------------------------------------------------------------------

// The window of every layer, 0 for none. Models whose layers differ are refused.
int64_t read_window(Fields& fields, const LlamaLike& family, int64_t layers) {
  int64_t window = 0;
  std::string_view expected = "full_attention";
  const auto window_field = [&] { return fields.size("sliding_window", kGreatestPositions, 4096); };
  if (family.window == LlamaLike::Window::kAlways) {
    window = fields.is_null("sliding_window") ? 0 : window_field();
  } else if (family.window == LlamaLike::Window::kSwitched) {
    const int64_t first = fields.has("max_window_layers") ? fields.at("max_window_layers").as_integer() : 28;
    const bool sliding = fields.boolean("use_sliding_window", false) && !fields.is_null("sliding_window");
    const bool listed = fields.has("layer_types");
    const std::vector<std::string> types = listed ? fields.at("layer_types").as_strings() : std::vector<std::string>();
    const int64_t windowed = listed ? std::count(types.begin(), types.end(), "sliding_attention")
                                    : std::clamp<int64_t>(layers - first, 0, layers);
    if (sliding && windowed != 0 && windowed != layers) {
      fields.fail(listed ? "layer_types" : "max_window_layers",
                  fmt::format("gives a window of {} tokens to {} of {} layers; only all or none is supported",
                              window_field(), windowed, layers));
    }
    if (sliding && windowed == layers) window = window_field();
    if (!sliding) (void)fields.has("sliding_window");  // not used, whatever it is
  }
  if (window != 0) expected = "sliding_attention";
  if (fields.has("layer_types")) {
    const std::vector<std::string> types = fields.at("layer_types").as_strings();
    if (std::cmp_not_equal(types.size(), layers)) {
      fields.fail("layer_types", fmt::format("has {} entries for {} layers", types.size(), layers));
    }
    for (const std::string& type : types) {
      if (type != expected) {
        fields.fail("layer_types",
                    fmt::format("has \"{}\"; with this window only \"{}\" is supported", type, expected));
      }
    }
  }
  return window;
}

// --- families --------------------------------------------------------------------------------------------------------

config::Slot<HeadNode> read_head(Fields& fields, bool tied) {
  if (fields.boolean("tie_word_embeddings", tied)) return TiedHead{};
  return UntiedHead{};
}

// What no architecture here computes.
void refuse_foreign_features(Fields& fields) {
  fields.demand("add_cross_attention", false, "there is no encoder to attend to");
  fields.demand("is_encoder_decoder", false, "only decoders are supported");
  fields.demand_empty("quantization_config", "quantised weights cannot be read; take the unquantised model");
  fields.demand_empty("pruned_heads", "every layer has the same heads");
  fields.demand_empty("per_layer_config", "every layer has the same sizes");
  fields.demand_empty("auto_map", "the model brings its own code, which weft cannot run");
}

void check_heads(Fields& fields, std::string_view heads_key, int64_t width, int64_t heads) {
  if (width % heads != 0) {
    fields.fail(heads_key, fmt::format("is {}; it must divide the width {}", heads, width));
  }
}

ModelNode read_gpt2(Fields& fields) {
  ModelNode model;
  const int64_t width = fields.size("n_embd", kGreatestWidth);
  const int64_t heads = fields.size("n_head", kGreatestHeads);
  model.vocabulary = fields.size("vocab_size", kGreatestVocabulary);
  model.width = width;
  model.layers = fields.size("n_layer", kGreatestLayers);
  model.positions = fields.size("n_positions", kGreatestPositions, 1024);
  check_heads(fields, "n_head", width, heads);
  fields.demand("scale_attn_by_inverse_layer_idx", false, "the scale of attention is the same in every layer");

  LayerNorm norm;
  norm.epsilon = fields.positive("layer_norm_epsilon", 1e-5);
  GroupedQueryAttention attention;
  attention.heads = heads;
  attention.kv_heads = heads;
  attention.head_dim = width / heads;
  attention.bias = attention.output_bias = true;
  attention.rope = {};
  attention.dropout = fields.dropout("attn_pdrop", 0.1);
  if (!fields.boolean("scale_attn_weights", true)) attention.scale = 1;
  GeluMlp mlp;
  mlp.ffn = fields.size("n_inner", kGreatestWidth, 4 * width);
  const std::string activation = fields.text("activation_function", "gelu_new");
  if (activation == "gelu" || activation == "gelu_python") {
    mlp.approximation = "erf";
  } else if (activation != "gelu_new" && activation != "gelu_pytorch_tanh" && activation != "gelu_fast") {
    fields.fail("activation_function",
                fmt::format("is \"{}\"; supported are \"gelu_new\", \"gelu_pytorch_tanh\", \"gelu_fast\" and \"gelu\"",
                            activation));
  }
  model.position = LearnedPositions{};
  model.embedding.dropout = fields.dropout("embd_pdrop", 0.1);
  model.layer.attention_norm = model.layer.mlp_norm = model.final_norm = norm;
  model.layer.attention = attention;
  model.layer.mlp = mlp;
  model.layer.attention_residual.dropout = model.layer.mlp_residual.dropout = fields.dropout("resid_pdrop", 0.1);
  model.head = read_head(fields, true);
  model.initializer.standard_deviation = fields.number("initializer_range", 0.02);
  model.initializer.output_projections = "depth";
  return model;
}

GroupedQueryAttention read_attention(Fields& fields, const LlamaLike& family, const ModelNode& model,
                                     std::vector<std::string>& warnings) {
  GroupedQueryAttention attention;
  const int64_t heads = fields.size("num_attention_heads", kGreatestHeads);
  const int64_t kv_heads_otherwise =
      fields.is_null("num_key_value_heads") || family.kv_heads == 0 ? heads : family.kv_heads;
  attention.heads = heads;
  attention.kv_heads = fields.size("num_key_value_heads", kGreatestHeads, kv_heads_otherwise);
  if (heads % attention.kv_heads != 0) {
    fields.fail("num_key_value_heads", fmt::format("is {}; it must divide {} heads", attention.kv_heads.get(), heads));
  }
  if (fields.has("head_dim")) {
    attention.head_dim = fields.size("head_dim", kGreatestHeadDim);
  } else if (family.head_dim != 0 && !fields.is_null("head_dim")) {
    attention.head_dim = family.head_dim;
  } else {
    check_heads(fields, "num_attention_heads", model.width, heads);
    attention.head_dim = model.width / heads;
  }
  if (attention.head_dim % 2 != 0) {
    fields.fail(fields.has("head_dim") ? "head_dim" : "hidden_size",
                fmt::format("gives heads of {} features; RoPE needs an even number", attention.head_dim.get()));
  }
  attention.bias = family.query_key_value_bias;
  if (family.attention_bias_field) attention.bias = attention.output_bias = fields.boolean("attention_bias", false);
  attention.dropout = fields.dropout("attention_dropout", 0);
  attention.window = read_window(fields, family, model.layers);
  attention.rope = read_hugging_face_rope(fields, model.positions, warnings);
  return attention;
}

ModelNode read_llama_like(Fields& fields, const LlamaLike& family, std::vector<std::string>& warnings) {
  ModelNode model;
  model.vocabulary = fields.size("vocab_size", kGreatestVocabulary);
  model.width = fields.size("hidden_size", kGreatestWidth);
  model.layers = fields.size("num_hidden_layers", kGreatestLayers);
  const int64_t positions_otherwise = family.model_type == "llama"     ? 2048
                                      : family.model_type == "mistral" ? 131072
                                                                       : 32768;
  model.positions = fields.size("max_position_embeddings", kGreatestPositions, positions_otherwise);
  RmsNorm norm;
  norm.epsilon = fields.positive("rms_norm_eps", 1e-6);
  GroupedQueryAttention attention = read_attention(fields, family, model, warnings);
  if (family.query_key_norm) attention.query_key_norm = norm;
  SwiGluMlp mlp;
  mlp.ffn = fields.size("intermediate_size", kGreatestWidth);
  if (family.mlp_bias_field) mlp.bias = fields.boolean("mlp_bias", false);
  const std::string activation = fields.text("hidden_act", "silu");
  if (activation != "silu" && activation != "swish") {
    fields.fail("hidden_act", fmt::format("is \"{}\"; supported is \"silu\"", activation));
  }
  model.layer.attention_norm = model.layer.mlp_norm = model.final_norm = norm;
  model.layer.attention = attention;
  model.layer.mlp = mlp;
  model.head = read_head(fields, false);
  model.initializer.standard_deviation = fields.number("initializer_range", 0.02);
  model.initializer.output_projections = "same";
  return model;
}

// --- the whole file --------------------------------------------------------------------------------------------------

// The architecture by its class, or by model_type where no class is named.
std::string read_architecture(Fields& fields) {
  std::vector<std::string> supported = {std::string(kGpt2)};
  for (const LlamaLike& family : kLlamaLike) supported.emplace_back(family.architecture);
  const std::string type = fields.text("model_type", "");
  std::string by_type = type == "gpt2" ? std::string(kGpt2) : "";
  for (const LlamaLike& family : kLlamaLike) {
    if (family.model_type == type) by_type = family.architecture;
  }
  const std::vector<std::string> named =
      fields.has("architectures") ? fields.at("architectures").as_strings() : std::vector<std::string>();
  const std::string architecture = named.empty() ? by_type : named.front();
  if (std::find(supported.begin(), supported.end(), architecture) == supported.end()) {
    const JsonReader owner =
        named.empty() && fields.has("model_type") ? fields.at("model_type") : fields.at("architectures");
    owner.fail(
        fmt::format("is \"{}\"; supported are {}", named.empty() ? type : architecture, fmt::join(supported, ", ")));
  }
  if (!type.empty() && by_type != architecture) {
    fields.fail("model_type", fmt::format("is \"{}\", which is not that of {}", type, architecture));
  }
  return architecture;
}

SpecialTokens read_tokens(Fields& fields, int64_t vocabulary) {
  const auto id = [&](const JsonReader& value) { return value.as_integer(); };
  const auto single = [&](std::string_view key) -> std::optional<int64_t> {
    // Some published files have ids beyond the vocabulary (or -1) for "none".
    if (!fields.has(key)) return std::nullopt;
    const int64_t token = id(fields.at(key));
    return token >= 0 && token < vocabulary ? std::optional(token) : std::nullopt;
  };
  SpecialTokens tokens;
  tokens.begin = single("bos_token_id");
  tokens.padding = single("pad_token_id");
  if (fields.has("eos_token_id") && fields.at("eos_token_id").is_array()) {
    tokens.end = fields.at("eos_token_id").as_integers();
  } else if (const auto end = single("eos_token_id")) {
    tokens.end = {*end};
  }
  return tokens;
}

std::string read_dtype(Fields& fields) {
  std::string dtype = fields.text("torch_dtype", "");
  dtype = fields.text("dtype", dtype);
  constexpr std::string_view kPrefix = "torch.";
  return dtype.starts_with(kPrefix) ? dtype.substr(kPrefix.size()) : dtype;
}

HuggingFaceConfig read(const Json& json, std::string_view origin) {
  const JsonReader config(json, origin);
  if (!config.is_object()) config.fail("must be a table (a JSON object)");
  Fields fields(config);
  HuggingFaceConfig result;
  result.architecture = read_architecture(fields);
  refuse_foreign_features(fields);
  if (result.architecture == kGpt2) {
    result.model = read_gpt2(fields);
  } else {
    const auto* family = std::find_if(kLlamaLike.begin(), kLlamaLike.end(), [&](const LlamaLike& candidate) {
      return candidate.architecture == result.architecture;
    });
    result.model = read_llama_like(fields, *family, result.warnings);
  }
  result.tokens = read_tokens(fields, result.model.vocabulary);
  result.dtype = read_dtype(fields);
  for (const std::string& key : fields.unknown()) {
    result.warnings.push_back(
        fmt::format("{}: {}: not known to weft for {}, not used", origin, key, result.architecture));
  }
  return result;
}

}  // namespace

HuggingFaceConfig read_hugging_face_config(const std::filesystem::path& config_json) {
  constexpr size_t kGreatestBytes = 16 << 20;
  return read(read_json_file(config_json, {.bytes = kGreatestBytes}), config_json.string());
}

HuggingFaceConfig parse_hugging_face_config(std::string_view text, std::string_view origin) {
  return read(parse_json(text, origin), origin);
}

}  // namespace weft::model
