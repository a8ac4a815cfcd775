// Families of models: short names with flat keys, from which a whole tree of nodes is made. A run file says
//   [model]
//   family = "llama"
//   width = 288
// and changes single nodes of the tree afterwards ([model.layer.mlp] kind = ...). FamilyNode::kinds() lists the
// families; each one's fields() lists its keys with their defaults.
#pragma once

#include <cstdint>
#include <optional>

#include "config/node.h"
#include "model/nodes.h"

namespace weft::model {

struct FamilyNode : config::Node {
  static const config::KindList& kinds();
  std::optional<int64_t> vocabulary;  // unset: the tokenizer's, filled in by the run
  config::Required<int64_t> width, layers, heads;
  std::optional<int64_t> ffn;
  int64_t positions = 0;
  double epsilon = 1e-5;
  bool tied = true;
  double dropout = 0;  // of the embedding, of the attention weights and of both branches

  void fields(config::FieldList& list) override;
  // Throws InputError where the keys contradict each other.
  [[nodiscard]] virtual ModelNode model() const = 0;

 protected:
  // What all families share: sizes, head, dropouts.
  [[nodiscard]] ModelNode base_model() const;
  [[nodiscard]] int64_t width_per_head() const;
};

// GPT-2: LayerNorm, learned positions, GELU (tanh), ffn 4 x width. `bias = false` takes all biases away, as nanoGPT
// does.
struct Gpt2Family : FamilyNode {
  WEFT_NODE(Gpt2Family, "gpt2")
  bool bias = true;

  Gpt2Family();
  void fields(config::FieldList& list) override;
  [[nodiscard]] ModelNode model() const override;
};

// RMSNorm, RoPE, SwiGLU, grouped-query attention. The families differ in their defaults only.
struct LlamaLikeFamily : FamilyNode {
  std::optional<int64_t> kv_heads;  // unset: heads
  std::optional<int64_t> head_dim;  // unset: width / heads
  double rope_theta = 10000;
  int64_t window = 0;
  bool bias = false;  // of query, key and value
  bool query_key_norm = false;

  void fields(config::FieldList& list) override;
  [[nodiscard]] ModelNode model() const override;
};

// Llama 2; Llama 3 is rope_theta = 500000 and, from 3.1 on, [model.layer.attention.rope] kind = "llama3".
struct LlamaFamily : LlamaLikeFamily {
  WEFT_NODE(LlamaFamily, "llama")
  LlamaFamily();
};

struct MistralFamily : LlamaLikeFamily {
  WEFT_NODE(MistralFamily, "mistral")
  MistralFamily();
};

struct Qwen2Family : LlamaLikeFamily {
  WEFT_NODE(Qwen2Family, "qwen2")
  Qwen2Family();
};

struct Qwen3Family : LlamaLikeFamily {
  WEFT_NODE(Qwen3Family, "qwen3")
  Qwen3Family();
};

struct SmolLm2Family : LlamaLikeFamily {
  WEFT_NODE(SmolLm2Family, "smollm2")
  SmolLm2Family();
};

}  // namespace weft::model
