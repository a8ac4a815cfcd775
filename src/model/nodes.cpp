// What each node's fields are, and which kinds each slot offers.
#include "model/nodes.h"

#include <fmt/format.h>

#include "base/error.h"

namespace weft::model {

using config::FieldList;
using config::Hint;
using config::KindList;

namespace {

constexpr auto kShape = Hint::kArchitecture;

void add_epsilon(FieldList& list, double& epsilon) {
  list.add("epsilon", epsilon, kShape, "", "added under the root").above(0);
}

void add_theta(FieldList& list, double& theta) {
  list.add("theta", theta, kShape, "", "base of the wavelengths").above(1);
}

void add_factor(FieldList& list, double& factor) {
  list.add("factor", factor, kShape, "", "how much longer sequences may be than the original ones").at_least(1);
}

void add_original_positions(FieldList& list, int64_t& positions) {
  list.add("original_positions", positions, kShape, "tokens", "the longest sequence before it was stretched")
      .at_least(1);
}

void add_multiplier(FieldList& list, double& multiplier, const char* text) {
  list.add("multiplier", multiplier, kShape, "", text);
}

void add_dropout(FieldList& list, double& dropout, const char* text) {
  list.add("dropout", dropout, Hint::kCore, "", text).at_least(0).at_most(0.99);
}

void add_ffn(FieldList& list, config::Required<int64_t>& ffn) {
  list.add("ffn", ffn, kShape, "", "inner width").at_least(1).at_most(kGreatestWidth);
}

}  // namespace

const KindList& NormNode::kinds() {
  static const KindList kinds = KindList::of<RmsNorm, LayerNorm>();
  return kinds;
}

const KindList& PositionNode::kinds() {
  static const KindList kinds = KindList::of<LearnedPositions>();
  return kinds;
}

const KindList& RopeNode::kinds() {
  static const KindList kinds = KindList::of<PlainRope, LinearRope, Llama3Rope, YarnRope>();
  return kinds;
}

const KindList& AttentionNode::kinds() {
  static const KindList kinds = KindList::of<GroupedQueryAttention>();
  return kinds;
}

const KindList& MlpNode::kinds() {
  static const KindList kinds = KindList::of<SwiGluMlp, GeluMlp>();
  return kinds;
}

const KindList& HeadNode::kinds() {
  static const KindList kinds = KindList::of<TiedHead, UntiedHead>();
  return kinds;
}

void RmsNorm::fields(FieldList& list) { add_epsilon(list, epsilon); }

void LayerNorm::fields(FieldList& list) {
  add_epsilon(list, epsilon);
  list.add("bias", bias, kShape, "", "a bias is added");
}

void LearnedPositions::fields(FieldList&) {}

void PlainRope::fields(FieldList& list) { add_theta(list, theta); }

void LinearRope::fields(FieldList& list) {
  add_theta(list, theta);
  add_factor(list, factor);
}

void Llama3Rope::fields(FieldList& list) {
  add_theta(list, theta);
  add_factor(list, factor);
  list.add("low_frequency_factor", low_frequency_factor, kShape, "turns", "waves with fewer turns are stretched whole")
      .above(0);
  list.add("high_frequency_factor", high_frequency_factor, kShape, "turns", "waves with more turns stay").above(0);
  add_original_positions(list, original_positions);
}

void YarnRope::fields(FieldList& list) {
  add_theta(list, theta);
  add_factor(list, factor);
  add_original_positions(list, original_positions);
  list.add("beta_fast", beta_fast, kShape, "turns", "waves with more turns stay").above(0);
  list.add("beta_slow", beta_slow, kShape, "turns", "waves with fewer turns are stretched whole").above(0);
  list.add("attention_factor", attention_factor, kShape, "", "multiplies cosines and sines; unset: 0.1 ln(factor) + 1")
      .above(0);
  list.add("truncate", truncate, kShape, "", "the ramp begins and ends at whole indices");
}

void GroupedQueryAttention::fields(FieldList& list) {
  list.add("heads", heads, kShape, "", "query heads").at_least(1).at_most(kGreatestHeads);
  list.add("kv_heads", kv_heads, kShape, "", "key/value heads, each shared by heads / kv_heads query heads")
      .at_least(1);
  list.add("head_dim", head_dim, kShape, "", "width of a head").at_least(1).at_most(kGreatestHeadDim);
  list.add("bias", bias, kShape, "", "query, key and value have biases");
  list.add("output_bias", output_bias, kShape, "", "the output projection has a bias");
  list.add("query_key_norm", query_key_norm, kShape, "norm of each query and key head, before the rotation")
      .may_be_empty();
  list.add("rope", rope, kShape, "rotation of queries and keys by their positions").may_be_empty();
  list.add("window", window, kShape, "tokens", "a token attends to this many, itself included; 0: to all before it")
      .at_least(0);
  list.add("scale", scale, kShape, "", "multiplies query . key; unset: 1 / sqrt(head_dim)").above(0);
  add_dropout(list, dropout, "share of attention weights dropped in training");
}

void SwiGluMlp::fields(FieldList& list) {
  add_ffn(list, ffn);
  list.add("bias", bias, kShape, "", "gate, up and down have biases");
}

void GeluMlp::fields(FieldList& list) {
  add_ffn(list, ffn);
  list.add("bias", bias, kShape, "", "up and down have biases");
  list.add("approximation", approximation, kShape, "", "of the GELU: erf is exact, tanh is GPT-2's")
      .one_of({"erf", "tanh"});
}

void EmbeddingNode::fields(FieldList& list) {
  add_multiplier(list, multiplier, "multiplies the token's row");
  add_dropout(list, dropout, "share of the embedding's values dropped in training");
}

void ResidualNode::fields(FieldList& list) {
  add_multiplier(list, multiplier, "multiplies the branch before it is added");
  add_dropout(list, dropout, "share of the branch's values dropped in training");
}

void LayerNode::fields(FieldList& list) {
  list.add("attention_norm", attention_norm, kShape, "norm before attention");
  list.add("attention", attention, kShape, "attention");
  list.add("attention_residual", attention_residual, kShape, "how attention's output is added");
  list.add("mlp_norm", mlp_norm, kShape, "norm before the MLP");
  list.add("mlp", mlp, kShape, "MLP");
  list.add("mlp_residual", mlp_residual, kShape, "how the MLP's output is added");
}

void TiedHead::fields(FieldList& list) { add_multiplier(list, multiplier, "multiplies the logits"); }

void UntiedHead::fields(FieldList& list) { add_multiplier(list, multiplier, "multiplies the logits"); }

void InitializerNode::fields(FieldList& list) {
  list.add("standard_deviation", standard_deviation, Hint::kCore, "", "of matrices and embeddings").at_least(0);
  list.add("output_projections", output_projections, Hint::kCore, "",
           "of matrices that write to the residual stream: depth divides by sqrt(2 layers), same does not")
      .one_of({"depth", "same"});
}

void ModelNode::fields(FieldList& list) {
  list.add("vocabulary", vocabulary, kShape, "tokens", "rows of the embedding")
      .at_least(1)
      .at_most(kGreatestVocabulary);
  list.add("width", width, kShape, "", "width of the residual stream").at_least(1).at_most(kGreatestWidth);
  list.add("layers", layers, kShape, "", "layers").at_least(0).at_most(kGreatestLayers);
  list.add("positions", positions, kShape, "tokens", "the longest sequence; 0: unlimited")
      .at_least(0)
      .at_most(kGreatestPositions);
  list.add("embedding", embedding, kShape, "token embedding");
  list.add("position", position, kShape, "learned positions, added to the embedding").may_be_empty();
  list.add("layer", layer, kShape, "every layer");
  list.add("final_norm", final_norm, kShape, "norm before the head");
  list.add("head", head, kShape, "from the last norm to logits");
  list.add("initializer", initializer, Hint::kCore, "values of fresh parameters");
}

void check(const ModelNode& model) {
  if (model.position && model.positions == 0) {
    throw InputError("model.positions is 0 (unlimited), but model.position = \"learned\" needs a number of them");
  }
  const auto* attention = dynamic_cast<const GroupedQueryAttention*>(model.layer.attention.get());
  if (attention == nullptr) return;
  const int64_t heads = attention->heads, kv_heads = attention->kv_heads, head_dim = attention->head_dim;
  if (heads % kv_heads != 0) {
    throw InputError(fmt::format("model.layer.attention: {} key/value heads do not divide {} heads", kv_heads, heads));
  }
  if (attention->rope && head_dim % 2 != 0) {
    throw InputError(
        fmt::format("model.layer.attention.head_dim is {}; a rotation (rope) needs an even one", head_dim));
  }
  if (const auto* llama3 = dynamic_cast<const Llama3Rope*>(attention->rope.get());
      llama3 != nullptr && llama3->high_frequency_factor <= llama3->low_frequency_factor) {
    throw InputError(fmt::format(
        "model.layer.attention.rope: high_frequency_factor is {}; it must be above low_frequency_factor, which is {}",
        llama3->high_frequency_factor, llama3->low_frequency_factor));
  }
}

}  // namespace weft::model
