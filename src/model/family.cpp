#include "model/family.h"

#include <fmt/format.h>

#include "base/error.h"

namespace weft::model {

using config::FieldList;
using config::Hint;

namespace {

// Llama's rule: two thirds of 4 x width, rounded up to a multiple of 256.
int64_t llama_ffn(int64_t width) { return (8 * width / 3 + 255) / 256 * 256; }

}  // namespace

const config::KindList& FamilyNode::kinds() {
  static const auto kinds =
      config::KindList::of<Gpt2Family, LlamaFamily, MistralFamily, Qwen2Family, Qwen3Family, SmolLm2Family>();
  return kinds;
}

void FamilyNode::fields(FieldList& list) {
  constexpr auto kShape = Hint::kArchitecture;
  list.add("vocabulary", vocabulary, kShape, "tokens", "rows of the embedding; unset: the tokenizer's")
      .at_least(1)
      .at_most(kGreatestVocabulary);
  list.add("width", width, kShape, "", "width of the residual stream").at_least(1).at_most(kGreatestWidth);
  list.add("layers", layers, kShape, "", "layers").at_least(0).at_most(kGreatestLayers);
  list.add("heads", heads, kShape, "", "query heads").at_least(1).at_most(kGreatestHeads);
  list.add("ffn", ffn, kShape, "", "inner width of the MLP; unset: the family's rule")
      .at_least(1)
      .at_most(kGreatestWidth);
  list.add("positions", positions, kShape, "tokens", "the longest sequence; 0: unlimited")
      .at_least(0)
      .at_most(kGreatestPositions);
  list.add("epsilon", epsilon, kShape, "", "of every norm").above(0);
  list.add("tied", tied, kShape, "", "the head's weight is the token embedding");
  list.add("dropout", dropout, Hint::kCore, "", "share dropped in training: embedding, attention weights, branches")
      .at_least(0)
      .at_most(0.99);
}

int64_t FamilyNode::width_per_head() const {
  if (width % heads != 0) {
    throw InputError(
        fmt::format("model.width is {}, which {} heads (model.heads) do not divide", width.get(), heads.get()));
  }
  return width / heads;
}

ModelNode FamilyNode::base_model() const {
  ModelNode model;
  if (vocabulary) model.vocabulary = *vocabulary;
  model.width = width;
  model.layers = layers;
  model.positions = positions;
  model.embedding.dropout = dropout;
  model.layer.attention_residual.dropout = dropout;
  model.layer.mlp_residual.dropout = dropout;
  if (tied) {
    model.head = TiedHead{};
  } else {
    model.head = UntiedHead{};
  }
  return model;
}

Gpt2Family::Gpt2Family() { positions = 1024; }

void Gpt2Family::fields(FieldList& list) {
  FamilyNode::fields(list);
  list.add("bias", bias, Hint::kArchitecture, "", "projections, MLP and norms have biases");
}

ModelNode Gpt2Family::model() const {
  ModelNode model = base_model();
  LayerNorm norm;
  norm.epsilon = epsilon;
  norm.bias = bias;
  GroupedQueryAttention attention;
  attention.heads = heads;
  attention.kv_heads = heads;
  attention.head_dim = width_per_head();
  attention.bias = attention.output_bias = bias;
  attention.rope = {};
  attention.dropout = dropout;
  GeluMlp mlp;
  mlp.ffn = ffn.value_or(4 * width);
  mlp.bias = bias;
  model.position = LearnedPositions{};
  model.layer.attention_norm = model.layer.mlp_norm = model.final_norm = norm;
  model.layer.attention = attention;
  model.layer.mlp = mlp;
  return model;
}

void LlamaLikeFamily::fields(FieldList& list) {
  constexpr auto kShape = Hint::kArchitecture;
  FamilyNode::fields(list);
  list.add("kv_heads", kv_heads, kShape, "", "key/value heads; unset: as many as heads")
      .at_least(1)
      .at_most(kGreatestHeads);
  list.add("head_dim", head_dim, kShape, "", "width of a head; unset: width / heads")
      .at_least(1)
      .at_most(kGreatestHeadDim);
  list.add("rope_theta", rope_theta, kShape, "", "base of the rotation's wavelengths").above(1);
  list.add("window", window, kShape, "tokens", "a token attends to this many, itself included; 0: to all before it")
      .at_least(0);
  list.add("bias", bias, kShape, "", "query, key and value have biases");
  list.add("query_key_norm", query_key_norm, kShape, "", "query and key heads are normalised before the rotation");
}

ModelNode LlamaLikeFamily::model() const {
  ModelNode model = base_model();
  RmsNorm norm;
  norm.epsilon = epsilon;
  PlainRope rope;
  rope.theta = rope_theta;
  GroupedQueryAttention attention;
  attention.heads = heads;
  attention.kv_heads = kv_heads.value_or(heads);
  attention.head_dim = head_dim ? *head_dim : width_per_head();
  attention.bias = bias;
  if (query_key_norm) attention.query_key_norm = norm;
  attention.rope = rope;
  attention.window = window;
  attention.dropout = dropout;
  SwiGluMlp mlp;
  mlp.ffn = ffn.value_or(llama_ffn(width));
  model.layer.attention_norm = model.layer.mlp_norm = model.final_norm = norm;
  model.layer.attention = attention;
  model.layer.mlp = mlp;
  return model;
}

LlamaFamily::LlamaFamily() {
  positions = 4096;
  tied = false;
}

MistralFamily::MistralFamily() {
  positions = 32768;
  tied = false;
  window = 4096;
}

Qwen2Family::Qwen2Family() {
  positions = 32768;
  tied = false;
  epsilon = 1e-6;
  rope_theta = 1000000;
  bias = true;
}

Qwen3Family::Qwen3Family() {
  positions = 32768;
  tied = false;
  epsilon = 1e-6;
  rope_theta = 1000000;
  head_dim = 128;
  query_key_norm = true;
}

SmolLm2Family::SmolLm2Family() {
  positions = 8192;
  rope_theta = 100000;
}

}  // namespace weft::model
