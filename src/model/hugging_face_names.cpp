#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "base/check.h"
#include "model/hugging_face.h"

namespace weft::model {
namespace {

// One tensor of a layer (or outside the layers) of the file: which of our parameters it holds, by the ends of their
// paths.
struct Row {
  std::string_view name;              // behind "h.0." or "layers.0."
  std::vector<std::string_view> own;  // behind "layers.0."
  bool transposed = false;
};

struct NameTable {
  std::string_view base;    // the base model's name in front of all but the head
  std::string_view layers;  // of the list of layers
  std::vector<Row> outside_before, layer, outside_after;
};

const NameTable& gpt2_names() {
  static const NameTable table = {
      "transformer.",
      "h.",
      {{"wte.weight", {"embedding.weight"}}, {"wpe.weight", {"position.weight"}}},
      {{"ln_1.weight", {"attention_norm.weight"}},
       {"ln_1.bias", {"attention_norm.bias"}},
       {"attn.c_attn.weight", {"attention.query.weight", "attention.key.weight", "attention.value.weight"}, true},
       {"attn.c_attn.bias", {"attention.query.bias", "attention.key.bias", "attention.value.bias"}},
       {"attn.c_proj.weight", {"attention.output.weight"}, true},
       {"attn.c_proj.bias", {"attention.output.bias"}},
       {"ln_2.weight", {"mlp_norm.weight"}},
       {"ln_2.bias", {"mlp_norm.bias"}},
       {"mlp.c_fc.weight", {"mlp.up.weight"}, true},
       {"mlp.c_fc.bias", {"mlp.up.bias"}},
       {"mlp.c_proj.weight", {"mlp.down.weight"}, true},
       {"mlp.c_proj.bias", {"mlp.down.bias"}}},
      {{"ln_f.weight", {"final_norm.weight"}}, {"ln_f.bias", {"final_norm.bias"}}}};
  return table;
}

const NameTable& llama_names() {
  static const NameTable table = {"model.",
                                  "layers.",
                                  {{"embed_tokens.weight", {"embedding.weight"}}},
                                  {{"input_layernorm.weight", {"attention_norm.weight"}},
                                   {"self_attn.q_proj.weight", {"attention.query.weight"}},
                                   {"self_attn.k_proj.weight", {"attention.key.weight"}},
                                   {"self_attn.v_proj.weight", {"attention.value.weight"}},
                                   {"self_attn.q_proj.bias", {"attention.query.bias"}},
                                   {"self_attn.k_proj.bias", {"attention.key.bias"}},
                                   {"self_attn.v_proj.bias", {"attention.value.bias"}},
                                   {"self_attn.q_norm.weight", {"attention.query_norm.weight"}},
                                   {"self_attn.k_norm.weight", {"attention.key_norm.weight"}},
                                   {"self_attn.o_proj.weight", {"attention.output.weight"}},
                                   {"self_attn.o_proj.bias", {"attention.output.bias"}},
                                   {"post_attention_layernorm.weight", {"mlp_norm.weight"}},
                                   {"mlp.gate_proj.weight", {"mlp.gate.weight"}},
                                   {"mlp.up_proj.weight", {"mlp.up.weight"}},
                                   {"mlp.gate_proj.bias", {"mlp.gate.bias"}},
                                   {"mlp.up_proj.bias", {"mlp.up.bias"}},
                                   {"mlp.down_proj.weight", {"mlp.down.weight"}},
                                   {"mlp.down_proj.bias", {"mlp.down.bias"}}},
                                  {{"norm.weight", {"final_norm.weight"}}}};
  return table;
}

class TensorList {
 public:
  TensorList(const ModelDescription& description, std::string_view base) : description_(description), base_(base) {
    for (size_t i = 0; i < description.parameters.size(); ++i) {
      index_.emplace(description.parameters[i].path, static_cast<int>(i));
    }
  }

  // Adds the tensor if the model has its parameters. `own_prefix` stands before our names, `prefix` before the file's.
  void add(const Row& row, const std::string& own_prefix, const std::string& prefix) {
    HuggingFaceTensor tensor;
    for (const std::string_view own : row.own) {
      const auto found = index_.find(own_prefix + std::string(own));
      if (found == index_.end()) return;
      tensor.parameters.push_back(found->second);
    }
    name(tensor, prefix + std::string(row.name));
    for (const int parameter : tensor.parameters) {
      const std::vector<int64_t>& shape = description_.parameters[static_cast<size_t>(parameter)].shape;
      if (tensor.shape.empty()) {
        tensor.shape = shape;
      } else {
        tensor.shape.front() += shape.front();
      }
    }
    tensor.transposed = row.transposed;
    if (row.transposed) std::reverse(tensor.shape.begin(), tensor.shape.end());
    tensors_.push_back(std::move(tensor));
  }

  // The head stands outside the base model.
  void add_head() {
    const auto found = index_.find("head.weight");
    if (found == index_.end()) return;
    HuggingFaceTensor tensor;
    tensor.name = tensor.short_name = tied_head_name();
    tensor.shape = description_.parameters[static_cast<size_t>(found->second)].shape;
    tensor.parameters = {found->second};
    tensors_.push_back(std::move(tensor));
  }

  // A bias that the architecture demands and the model lacks; its length is that of the parameters whose bias it is.
  void add_zeros(const Row& bias, const std::string& own_prefix, const std::string& prefix) {
    HuggingFaceTensor tensor;
    int64_t length = 0;
    for (const std::string_view own : bias.own) {
      const std::string path = own_prefix + std::string(own);
      if (index_.contains(path)) return;
      const std::string weight = path.substr(0, path.rfind('.')) + ".weight";
      const auto found = index_.find(weight);
      WEFT_CHECK(found != index_.end());
      length += description_.parameters[static_cast<size_t>(found->second)].shape.front();
    }
    name(tensor, prefix + std::string(bias.name));
    tensor.shape = {length};
    tensors_.push_back(std::move(tensor));
  }

  std::vector<HuggingFaceTensor> take() { return std::move(tensors_); }

 private:
  void name(HuggingFaceTensor& tensor, std::string short_name) const {
    tensor.name = std::string(base_) + short_name;
    tensor.short_name = std::move(short_name);
  }

  const ModelDescription& description_;
  std::string_view base_;
  std::map<std::string, int, std::less<>> index_;
  std::vector<HuggingFaceTensor> tensors_;
};

// Which biases a model of the architecture has once it has one of them; the rest are zeros.
bool demands_zeros(std::string_view architecture, const Row& row, const ModelDescription& description) {
  if (!row.name.ends_with("bias")) return false;
  if (architecture == "GPT2LMHeadModel") return true;
  if (architecture == "Qwen2ForCausalLM" || !row.name.starts_with("self_attn.")) return false;
  return std::any_of(description.parameters.begin(), description.parameters.end(), [](const auto& parameter) {
    return parameter.path.starts_with("layers.0.attention.") && parameter.path.ends_with(".bias");
  });
}

}  // namespace

std::vector<HuggingFaceTensor> hugging_face_tensors(const ModelDescription& description,
                                                    std::string_view architecture) {
  const NameTable& table = architecture == "GPT2LMHeadModel" ? gpt2_names() : llama_names();
  TensorList list(description, table.base);
  const auto add = [&](const Row& row, const std::string& own_prefix, const std::string& prefix) {
    list.add(row, own_prefix, prefix);
    if (demands_zeros(architecture, row, description)) list.add_zeros(row, own_prefix, prefix);
  };
  for (const Row& row : table.outside_before) add(row, "", "");
  for (int64_t layer = 0; layer < description.layers; ++layer) {
    const std::string number = std::to_string(layer) + ".";
    for (const Row& row : table.layer) add(row, "layers." + number, std::string(table.layers) + number);
  }
  for (const Row& row : table.outside_after) add(row, "", "");
  list.add_head();
  return list.take();
}

std::string_view tied_head_name() { return "lm_head.weight"; }

bool is_known_buffer(std::string_view name) {
  constexpr auto kEnds = std::to_array<std::string_view>({".attn.bias", ".attn.masked_bias", ".rotary_emb.inv_freq"});
  return std::any_of(kEnds.begin(), kEnds.end(), [&](std::string_view end) { return name.ends_with(end); });
}

}  // namespace weft::model
