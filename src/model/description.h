// What a model is, without a tensor: parameters, segments and the values between them. Everything that decides (memory,
// FLOPs, sharding, schedules) reads this description; src/nn computes the same segments.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/node.h"
#include "model/tensor_cut.h"

namespace weft::model {

// The role of a parameter, decided by the model when it describes it, never by matching its name. Parametrisation,
// weight decay and optimizer choice follow from it.
enum class ParameterClass { kEmbedding, kHead, kTied, kHiddenMatrix, kVector, kExpert };

struct Initializer {
  enum class Kind { kZeros, kOnes, kNormal };
  Kind kind = Kind::kNormal;
  double standard_deviation = 0;
  friend bool operator==(const Initializer&, const Initializer&) = default;
};

struct ParameterDescription {
  std::string path;            // unique, dotted: "layers.3.attention.query.weight"
  std::vector<int64_t> shape;  // matrices are (out, in), row-major; embeddings (rows, width)
  ParameterClass parameter_class = ParameterClass::kHiddenMatrix;
  Initializer initializer;
  bool weight_decay = true;      // matrices and embeddings decay, vectors do not
  int64_t fan_in = 1;            // numbers that an output sums: columns of a matrix, tied ones too; else 1
  int64_t fan_out = 1;           // outputs: rows of a matrix; the width of an embedding's row; a vector's features
  bool writes_residual = false;  // a matrix whose outputs are added to the residual stream
  TensorCut tensor_cut;          // what a tensor rank holds
  [[nodiscard]] int64_t elements() const;
};

// Where the model is cut, so that any layout may communicate there (docs/architecture.md, 1). Behind each kind: its
// inputs -> outputs; the node it is computed from; its parameters in order, those in brackets only where the node asks
// for them. Weights of one product stand next to each other, and so do their biases.
enum class SegmentKind {
  kEmbed,          // tokens (from the batch) -> x. ModelNode. embedding.weight (vocabulary, width),
                   // [position.weight (positions, width)]
  kNorm,           // x -> normed. NormNode (RmsNorm, LayerNorm). weight (width), [bias (width)]
  kQueryKeyValue,  // normed -> query, key, value, with positions applied. AttentionNode. query.weight (heads *
                   // head_dim, width), key.weight, value.weight (kv_heads * head_dim, width), [query.bias, key.bias,
                   // value.bias], [query_norm.weight (head_dim), [query_norm.bias], key_norm.weight, [key_norm.bias]]
  kAttention,      // query, key, value -> branch (core and output projection). AttentionNode.
                   // output.weight (width, heads * head_dim), [output.bias (width)]
  kResidual,       // x, branch -> x + multiplier * dropout(branch). ResidualNode. none
  kMlp,            // normed -> branch. MlpNode. SwiGluMlp: gate.weight, up.weight (ffn, width), [gate.bias, up.bias],
                   // down.weight (width, ffn), [down.bias]. GeluMlp: up.weight, [up.bias], down.weight, [down.bias]
  kLogits,         // normed -> logits, times the head's multiplier, and their statistics (nn/segment.h: none on one
                   // rank). HeadNode. head.weight (vocabulary, width); where tied, embedding.weight
  kLoss,           // logits, statistics -> loss (targets from the batch): the cross-entropy in nats. HeadNode. none
};

// A micro-batch's size, on which costs depend.
struct Rows {
  int64_t sequences = 0;
  int64_t length = 0;  // tokens a sequence
  [[nodiscard]] int64_t tokens() const { return sequences * length; }
};

// FLOPs are those of the matrix products, 2 a multiply-add, without recomputation; attention counts the pairs that the
// causal mask and the window leave.
struct Cost {
  double forward_flops = 0;
  double backward_flops = 0;
  double saved_values = 0;  // values (not bytes) kept for the backward, beside the segment's kept inputs
};

// What Cost follows from. A pair is a token and one that it attends to, itself included.
struct CostFormula {
  double forward_flops_per_token = 0;
  double forward_flops_per_pair = 0;
  double backward_ratio = 0;  // backward FLOPs over forward FLOPs: 2 where an input and a weight gradient are products
  double saved_per_token = 0;
  int64_t window = 0;  // a token attends to at most this many, 0: to all before it
};

// The pairs of one sequence: sum over t of min(t + 1, window).
[[nodiscard]] double attended_pairs(int64_t length, int64_t window);

// A tensor between segments: [sequences, length, ...trailing], trailing is (features) or (heads, head_dim). The loss
// is one number, the sum over the micro-batch's target tokens.
struct ValueDescription {
  std::string name;  // "layers.3.attention.query", for messages
  std::vector<int64_t> trailing;
  [[nodiscard]] int64_t elements_per_token() const;
};

struct SegmentDescription {
  SegmentKind kind = SegmentKind::kEmbed;
  std::string path;                    // unique, the place of what it computes: "layers.3.attention.core"
  int layer = -1;                      // -1 outside the layers
  const config::Node* node = nullptr;  // the configuration node (see SegmentKind), owned by the tree
  std::vector<int> parameters;         // indices into ModelDescription::parameters, in the order of SegmentKind
  std::vector<int> inputs;             // values read, in order
  std::vector<int> outputs;            // values written
  std::vector<int> kept;               // those of the inputs that the backward needs again
  CostFormula formula;
  [[nodiscard]] Cost cost(Rows rows) const;
};

// The description holds pointers into the tree it was made from; the tree must outlive it and stay unchanged.
struct ModelDescription {
  std::vector<ParameterDescription> parameters;  // order of first use; a tied head is one entry, used twice
  std::vector<ValueDescription> values;
  std::vector<SegmentDescription> segments;  // execution order
  int64_t vocabulary = 0;
  int64_t width = 0;
  int64_t layers = 0;
  int64_t maximum_positions = 0;  // 0: unlimited
  [[nodiscard]] int64_t parameter_count() const;
  // Without the token and position embeddings and without an untied head: what scaling laws and FLOPs rules count.
  [[nodiscard]] int64_t parameter_count_without_embedding() const;
  // Forward and backward FLOPs of one token, averaged over a sequence of this length.
  [[nodiscard]] double flops_per_token(int64_t length) const;
};

}  // namespace weft::model
