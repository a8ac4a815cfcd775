// What a model is, without a tensor: parameters, segments and the values between them. Everything that decides (memory,
// FLOPs, sharding, schedules) reads this description; src/nn computes the same segments.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/node.h"

namespace weft::model {

// The role of a parameter, decided by the model when it describes it, never by matching its name. Parametrisation,
// weight decay and optimizer choice follow from it.
enum class ParameterClass { kEmbedding, kHead, kTied, kHiddenMatrix, kVector, kExpert };

struct Initializer {
  enum class Kind { kZeros, kOnes, kNormal };
  Kind kind = Kind::kNormal;
  double standard_deviation = 0;
};

struct ParameterDescription {
  std::string path;             // unique, dotted: "layers.3.attention.query.weight"
  std::vector<int64_t> shape;   // matrices are (out, in), row-major
  ParameterClass parameter_class = ParameterClass::kHiddenMatrix;
  Initializer initializer;
  bool weight_decay = true;
  [[nodiscard]] int64_t elements() const;
};

// Where the model is cut, so that any layout may communicate there (docs/architecture.md, 1).
enum class SegmentKind {
  kEmbed,              // tokens (from the batch) -> x
  kNorm,               // x -> normed
  kQueryKeyValue,      // normed -> query, key, value (with positions applied)
  kAttention,          // query, key, value -> branch (core and output projection)
  kResidual,           // x, branch -> x
  kMlp,                // normed -> branch
  kLogits,             // normed -> logits
  kLoss,               // logits -> loss (targets from the batch)
};

// A micro-batch's size, on which costs depend.
struct Rows {
  int64_t sequences = 0;
  int64_t length = 0;  // tokens a sequence
  [[nodiscard]] int64_t tokens() const { return sequences * length; }
};

struct Cost {
  double forward_flops = 0;      // 2 a multiply-add
  double backward_flops = 0;
  double saved_values = 0;       // values (not bytes) kept for the backward, beside the segment's inputs
};

// A tensor between segments: [sequences, length, ...trailing], trailing is (features) or (heads, head_dim).
struct ValueDescription {
  std::string name;                 // "layers.3.attention.query", for messages
  std::vector<int64_t> trailing;
};

struct SegmentDescription {
  SegmentKind kind = SegmentKind::kEmbed;
  std::string path;                 // the configuration path of what it computes: "layers.3.attention.core"
  int layer = -1;                   // -1 outside the layers
  const config::Node* node = nullptr;  // the configuration node, owned by the tree
  std::vector<int> parameters;      // indices into ModelDescription::parameters, order fixed by the kind and the node
  std::vector<int> inputs;          // values read, in order
  std::vector<int> outputs;         // values written
  [[nodiscard]] Cost cost(Rows rows) const;
};

// The description holds pointers into the tree it was made from; the tree must outlive it and stay unchanged.
struct ModelDescription {
  std::vector<ParameterDescription> parameters;  // path order (order of first use); a tied head is one entry, used twice
  std::vector<ValueDescription> values;
  std::vector<SegmentDescription> segments;      // execution order
  int64_t vocabulary = 0;
  int64_t width = 0;
  int64_t layers = 0;
  int64_t maximum_positions = 0;                 // 0: unlimited
  [[nodiscard]] int64_t parameter_count() const;
  [[nodiscard]] int64_t parameter_count_without_embedding() const;
  // Forward and backward FLOPs of one token at this sequence length.
  [[nodiscard]] double flops_per_token(int64_t length) const;
};

}  // namespace weft::model
