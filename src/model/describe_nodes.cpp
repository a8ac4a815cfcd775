// How each node writes its part of the description. Orders of parameters are those of SegmentKind.
#include <cmath>

#include "model/describer.h"
#include "model/nodes.h"

namespace weft::model {
namespace {

// FLOPs of one token in a product with a matrix of this many elements.
double product_flops(int64_t elements) { return 2.0 * static_cast<double>(elements); }

// Input and weight gradient cost as much as the product itself, each.
constexpr double kBackwardRatio = 2;

// The ffn dim of a matrix or vector.
constexpr TensorCut ffn_cut(int dim) { return {TensorCut::Kind::kUnits, dim, {}}; }

}  // namespace

std::vector<int> RmsNorm::describe(Describer& describer, const std::string& path, int64_t features) const {
  return {describer.gain(path + ".weight", features)};
}

std::vector<int> LayerNorm::describe(Describer& describer, const std::string& path, int64_t features) const {
  std::vector<int> parameters = {describer.gain(path + ".weight", features)};
  if (bias) parameters.push_back(describer.bias(path + ".bias", features, {}));
  return parameters;
}

std::vector<int> LearnedPositions::describe(Describer& describer, const std::string& path, int64_t positions) const {
  return {describer.table(path + ".weight", positions, ParameterClass::kEmbedding, {})};
}

double GroupedQueryAttention::natural_scale() const { return 1 / std::sqrt(static_cast<double>(head_dim.get())); }

double GroupedQueryAttention::effective_scale() const { return scale.value_or(natural_scale()); }

void GroupedQueryAttention::describe_query_key_value(Describer& describer, const std::string& path,
                                                     SegmentDescription& segment) const {
  const int64_t query_features = heads * head_dim;
  const int64_t key_features = kv_heads * head_dim;
  const int64_t width = describer.width();
  const Heads counts{heads, kv_heads};
  const TensorCut query_cut{TensorCut::Kind::kQueryHeads, 0, counts};
  const TensorCut key_cut{TensorCut::Kind::kKeyValueHeads, 0, counts};
  std::vector<int>& parameters = segment.parameters;
  parameters = {describer.matrix(path + ".query.weight", query_features, width, query_cut),
                describer.matrix(path + ".key.weight", key_features, width, key_cut),
                describer.matrix(path + ".value.weight", key_features, width, key_cut)};
  if (bias) {
    parameters.push_back(describer.bias(path + ".query.bias", query_features, query_cut));
    parameters.push_back(describer.bias(path + ".key.bias", key_features, key_cut));
    parameters.push_back(describer.bias(path + ".value.bias", key_features, key_cut));
  }
  if (query_key_norm) {
    for (const std::string& name : {path + ".query_norm", path + ".key_norm"}) {
      const std::vector<int> norm = query_key_norm->describe(describer, name, head_dim);
      parameters.insert(parameters.end(), norm.begin(), norm.end());
    }
    // The norm of a head keeps what it normalises and its statistics.
    segment.formula.saved_per_token = static_cast<double>(query_features + key_features) +
                                      query_key_norm->statistics_per_row() * static_cast<double>(heads + kv_heads);
  }
  segment.outputs = {describer.value(path + ".query", {heads, head_dim}),
                     describer.value(path + ".key", {kv_heads, head_dim}),
                     describer.value(path + ".value", {kv_heads, head_dim})};
  segment.kept = segment.inputs;
  segment.formula.forward_flops_per_token = product_flops((query_features + 2 * key_features) * width);
  segment.formula.backward_ratio = kBackwardRatio;
}

void GroupedQueryAttention::describe_core(Describer& describer, const std::string& path,
                                          SegmentDescription& segment) const {
  const int64_t features = heads * head_dim;
  const int64_t width = describer.width();
  const TensorCut cut{TensorCut::Kind::kQueryHeads, 1, {heads, kv_heads}};
  segment.parameters = {describer.output_matrix(path + ".output.weight", width, features, cut)};
  if (output_bias) segment.parameters.push_back(describer.bias(path + ".output.bias", width, {}));
  segment.outputs = {describer.value(path + ".output", {width})};
  segment.kept = segment.inputs;
  segment.formula.forward_flops_per_token = product_flops(features * width);
  segment.formula.forward_flops_per_pair = 2 * product_flops(features);  // scores, and their mixture of the values
  segment.formula.backward_ratio = kBackwardRatio;
  segment.formula.saved_per_token = static_cast<double>(features + heads);  // the mixture and a head's log-sum-exp
  segment.formula.window = window;
}

void SwiGluMlp::describe(Describer& describer, const std::string& path, SegmentDescription& segment) const {
  const int64_t width = describer.width();
  std::vector<int>& parameters = segment.parameters;
  parameters = {describer.matrix(path + ".gate.weight", ffn, width, ffn_cut(0)),
                describer.matrix(path + ".up.weight", ffn, width, ffn_cut(0))};
  if (bias) {
    parameters.push_back(describer.bias(path + ".gate.bias", ffn, ffn_cut(0)));
    parameters.push_back(describer.bias(path + ".up.bias", ffn, ffn_cut(0)));
  }
  parameters.push_back(describer.output_matrix(path + ".down.weight", width, ffn, ffn_cut(1)));
  if (bias) parameters.push_back(describer.bias(path + ".down.bias", width, {}));
  segment.formula.forward_flops_per_token = product_flops(3 * width * ffn);
  segment.formula.backward_ratio = kBackwardRatio;
  segment.formula.saved_per_token = 2 * static_cast<double>(ffn.get());  // gate and up
}

void GeluMlp::describe(Describer& describer, const std::string& path, SegmentDescription& segment) const {
  const int64_t width = describer.width();
  std::vector<int>& parameters = segment.parameters;
  parameters = {describer.matrix(path + ".up.weight", ffn, width, ffn_cut(0))};
  if (bias) parameters.push_back(describer.bias(path + ".up.bias", ffn, ffn_cut(0)));
  parameters.push_back(describer.output_matrix(path + ".down.weight", width, ffn, ffn_cut(1)));
  if (bias) parameters.push_back(describer.bias(path + ".down.bias", width, {}));
  segment.formula.forward_flops_per_token = product_flops(2 * width * ffn);
  segment.formula.backward_ratio = kBackwardRatio;
  segment.formula.saved_per_token = static_cast<double>(ffn.get());  // before the activation
}

}  // namespace weft::model
