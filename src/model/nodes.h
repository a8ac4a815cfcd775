// The configuration of a model: a tree of nodes in slots. A variant of a model is another node in a slot, never a flag
// in its parent. A parent gives its children what fixes their interface (the width, the number of layers); the rest is
// theirs.
//
//   ModelNode
//     embedding   EmbeddingNode
//     position    none | learned
//     layer       LayerNode, used `layers` times (pre-norm: x + branch(norm(x)))
//       attention_norm      rms_norm | layer_norm
//       attention           grouped_query
//         query_key_norm    none | rms_norm | layer_norm
//         rope              none | plain | linear | llama3 | yarn
//       attention_residual  ResidualNode
//       mlp_norm            rms_norm | layer_norm
//       mlp                 swiglu | gelu
//       mlp_residual        ResidualNode
//     final_norm  rms_norm | layer_norm
//     head        tied | untied
//     initializer InitializerNode
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/node.h"

namespace weft::model {

// Bounds of sizes, so that no product of them leaves 63 bits: a lying config.json is refused before anything is
// allocated.
constexpr int64_t kGreatestVocabulary = 1 << 26;
constexpr int64_t kGreatestWidth = 1 << 20;
constexpr int64_t kGreatestLayers = 1 << 14;
constexpr int64_t kGreatestHeads = 1 << 12;
constexpr int64_t kGreatestHeadDim = 1 << 12;
constexpr int64_t kGreatestPositions = 1 << 30;

class Describer;
struct SegmentDescription;

// --- norms -----------------------------------------------------------------------------------------------------------

struct NormNode : config::Node {
  static const config::KindList& kinds();
  // Adds the parameters under `path`; their indices in the order of SegmentKind.
  [[nodiscard]] virtual std::vector<int> describe(Describer& describer, const std::string& path,
                                                  int64_t features) const = 0;
  // Numbers kept a normalised row for the backward.
  [[nodiscard]] virtual double statistics_per_row() const = 0;
};

// y = weight * x / sqrt(mean(x^2) + epsilon).
struct RmsNorm : NormNode {
  WEFT_NODE(RmsNorm, "rms_norm")
  void fields(config::FieldList& list) override;
  double epsilon = 1e-5;
  std::vector<int> describe(Describer& describer, const std::string& path, int64_t features) const override;
  double statistics_per_row() const override { return 1; }
};

// y = weight * (x - mean) / sqrt(variance + epsilon) + bias.
struct LayerNorm : NormNode {
  WEFT_NODE(LayerNorm, "layer_norm")
  void fields(config::FieldList& list) override;
  double epsilon = 1e-5;
  bool bias = true;
  std::vector<int> describe(Describer& describer, const std::string& path, int64_t features) const override;
  double statistics_per_row() const override { return 2; }
};

// --- positions -------------------------------------------------------------------------------------------------------

struct PositionNode : config::Node {
  static const config::KindList& kinds();
  [[nodiscard]] virtual std::vector<int> describe(Describer& describer, const std::string& path,
                                                  int64_t positions) const = 0;
};

// A row of (positions, width) is added to the token's embedding. Needs ModelNode::positions.
struct LearnedPositions : PositionNode {
  WEFT_NODE(LearnedPositions, "learned")
  void fields(config::FieldList& list) override;
  std::vector<int> describe(Describer& describer, const std::string& path, int64_t positions) const override;
};

// Position p turns the pair (i, i + head_dim / 2) of a head by the angle p * inverse[i]; both cosine and sine are then
// multiplied by `attention_factor`. "Rotate half" order, as in Hugging Face's files; Meta's own files interleave pairs.
struct RopeFrequencies {
  std::vector<double> inverse;  // head_dim / 2, radians a position
  double attention_factor = 1;
};

struct RopeNode : config::Node {
  static const config::KindList& kinds();
  // head_dim must be even.
  [[nodiscard]] virtual RopeFrequencies frequencies(int64_t head_dim) const = 0;
};

// inverse[i] = theta^(-2i / head_dim): RoFormer, arXiv 2104.09864.
struct PlainRope : RopeNode {
  WEFT_NODE(PlainRope, "plain")
  void fields(config::FieldList& list) override;
  double theta = 10000;
  RopeFrequencies frequencies(int64_t head_dim) const override;
};

// All frequencies divided by the factor: position interpolation, arXiv 2306.15595.
struct LinearRope : RopeNode {
  WEFT_NODE(LinearRope, "linear")
  void fields(config::FieldList& list) override;
  double theta = 10000;
  double factor = 1;
  RopeFrequencies frequencies(int64_t head_dim) const override;
};

// Waves longer than original_positions / low_frequency_factor are stretched by the factor, those shorter than
// original_positions / high_frequency_factor stay, those between are mixed: Llama 3.1.
struct Llama3Rope : RopeNode {
  WEFT_NODE(Llama3Rope, "llama3")
  void fields(config::FieldList& list) override;
  double theta = 500000;
  double factor = 8;
  double low_frequency_factor = 1;
  double high_frequency_factor = 4;
  int64_t original_positions = 8192;
  RopeFrequencies frequencies(int64_t head_dim) const override;
};

// NTK by parts, arXiv 2309.00071: frequencies that make more than beta_fast turns over the original positions stay,
// those that make less than beta_slow are stretched by the factor, with a ramp over the indices between.
struct YarnRope : RopeNode {
  WEFT_NODE(YarnRope, "yarn")
  void fields(config::FieldList& list) override;
  double theta = 10000;
  double factor = 1;
  int64_t original_positions = 4096;
  double beta_fast = 32;
  double beta_slow = 1;
  std::optional<double> attention_factor;  // else 0.1 ln(factor) + 1
  bool truncate = true;                    // the ramp's ends at whole indices
  [[nodiscard]] double effective_attention_factor() const;
  RopeFrequencies frequencies(int64_t head_dim) const override;
};

// --- attention -------------------------------------------------------------------------------------------------------

struct AttentionNode : config::Node {
  static const config::KindList& kinds();
  // Fill parameters, outputs, kept values and formula; inputs are set.
  virtual void describe_query_key_value(Describer& describer, const std::string& path,
                                        SegmentDescription& segment) const = 0;
  virtual void describe_core(Describer& describer, const std::string& path, SegmentDescription& segment) const = 0;
};

// Causal softmax attention; each key/value head serves heads / kv_heads query heads, in order.
struct GroupedQueryAttention : AttentionNode {
  WEFT_NODE(GroupedQueryAttention, "grouped_query")
  void fields(config::FieldList& list) override;
  config::Required<int64_t> heads, kv_heads, head_dim;
  bool bias = false;                      // of query, key and value
  bool output_bias = false;               // of the output projection
  config::Slot<NormNode> query_key_norm;  // over each head's head_dim, before the rotation
  config::Slot<RopeNode> rope = PlainRope{};
  int64_t window = 0;           // token t attends to s where t - s < window; 0: to all before it
  std::optional<double> scale;  // multiplies query . key; else 1 / sqrt(head_dim)
  double dropout = 0;           // of the attention weights

  [[nodiscard]] double natural_scale() const;    // 1 / sqrt(head_dim)
  [[nodiscard]] double effective_scale() const;  // scale, else the natural one
  void describe_query_key_value(Describer& describer, const std::string& path,
                                SegmentDescription& segment) const override;
  void describe_core(Describer& describer, const std::string& path, SegmentDescription& segment) const override;
};

// --- mlp -------------------------------------------------------------------------------------------------------------

struct MlpNode : config::Node {
  static const config::KindList& kinds();
  // Fills parameters and formula.
  virtual void describe(Describer& describer, const std::string& path, SegmentDescription& segment) const = 0;
};

// down(silu(gate(x)) * up(x)).
struct SwiGluMlp : MlpNode {
  WEFT_NODE(SwiGluMlp, "swiglu")
  void fields(config::FieldList& list) override;
  config::Required<int64_t> ffn;
  bool bias = false;
  void describe(Describer& describer, const std::string& path, SegmentDescription& segment) const override;
};

// down(gelu(up(x))).
struct GeluMlp : MlpNode {
  WEFT_NODE(GeluMlp, "gelu")
  void fields(config::FieldList& list) override;
  config::Required<int64_t> ffn;
  bool bias = true;
  std::string approximation = "tanh";  // or "erf", the exact one
  void describe(Describer& describer, const std::string& path, SegmentDescription& segment) const override;
};

// --- the rest --------------------------------------------------------------------------------------------------------

// x = multiplier * token row (+ position row), then dropout.
struct EmbeddingNode : config::Node {
  WEFT_NODE(EmbeddingNode, "embedding")
  void fields(config::FieldList& list) override;
  double multiplier = 1;
  double dropout = 0;
};

// x + multiplier * dropout(branch).
struct ResidualNode : config::Node {
  WEFT_NODE(ResidualNode, "residual")
  void fields(config::FieldList& list) override;
  double multiplier = 1;
  double dropout = 0;
};

struct LayerNode : config::Node {
  WEFT_NODE(LayerNode, "layer")
  void fields(config::FieldList& list) override;
  config::Slot<NormNode> attention_norm = RmsNorm{};
  config::Slot<AttentionNode> attention = GroupedQueryAttention{};
  ResidualNode attention_residual;
  config::Slot<NormNode> mlp_norm = RmsNorm{};
  config::Slot<MlpNode> mlp = SwiGluMlp{};
  ResidualNode mlp_residual;
};

// logits = multiplier * weight x.
struct HeadNode : config::Node {
  static const config::KindList& kinds();
  double multiplier = 1;
  [[nodiscard]] virtual bool tied() const = 0;  // weight is the token embedding
};

struct TiedHead : HeadNode {
  WEFT_NODE(TiedHead, "tied")
  void fields(config::FieldList& list) override;
  bool tied() const override { return true; }
};

struct UntiedHead : HeadNode {
  WEFT_NODE(UntiedHead, "untied")
  void fields(config::FieldList& list) override;
  bool tied() const override { return false; }
};

// Matrices and embeddings are normal, gains one, biases zero.
struct InitializerNode : config::Node {
  WEFT_NODE(InitializerNode, "initializer")
  void fields(config::FieldList& list) override;
  double standard_deviation = 0.02;
  // Of matrices that write to the residual stream: "depth" divides by sqrt(2 layers) as GPT-2 does, "same" is like
  // others.
  std::string output_projections = "depth";
};

struct ModelNode : config::Node {
  WEFT_NODE(ModelNode, "model")
  void fields(config::FieldList& list) override;
  config::Required<int64_t> vocabulary, width, layers;
  int64_t positions = 0;  // the longest sequence, 0: unlimited
  EmbeddingNode embedding;
  config::Slot<PositionNode> position;
  LayerNode layer;
  config::Slot<NormNode> final_norm = RmsNorm{};
  config::Slot<HeadNode> head = TiedHead{};
  InitializerNode initializer;
};

// Throws InputError naming the field where nodes do not fit each other: key/value heads do not divide the heads,
// learned positions without a number of them, a rotation of an odd head dimension, ...
void check(const ModelNode& model);

}  // namespace weft::model
