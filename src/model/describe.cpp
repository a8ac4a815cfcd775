#include "model/describe.h"

#include <cmath>
#include <string>
#include <utility>

#include "model/describer.h"

namespace weft::model {
namespace {

// Of tables whose rows are the vocabulary.
constexpr TensorCut kRows{TensorCut::Kind::kUnits, 0, {}};

SegmentDescription begin(SegmentKind kind, std::string path, int layer, const config::Node* node) {
  SegmentDescription segment;
  segment.kind = kind;
  segment.path = std::move(path);
  segment.layer = layer;
  segment.node = node;
  return segment;
}

// Walks the model in execution order. `x_` is the residual stream's newest value.
class Walk {
 public:
  Walk(const ModelNode& model, Describer& describer) : model_(model), describer_(describer) {}

  void run() {
    embed();
    for (int layer = 0; layer < model_.layers; ++layer) describe_layer(layer);
    norm(*model_.final_norm, "final_norm", -1);
    head();
  }

 private:
  void embed() {
    SegmentDescription segment = begin(SegmentKind::kEmbed, "embedding", -1, &model_);
    const ParameterClass parameter_class = model_.head->tied() ? ParameterClass::kTied : ParameterClass::kEmbedding;
    segment.parameters = {describer_.table("embedding.weight", model_.vocabulary, parameter_class, kRows)};
    if (model_.position) {
      for (const int index : model_.position->describe(describer_, "position", model_.positions)) {
        segment.parameters.push_back(index);
      }
    }
    x_ = describer_.value("embedding.output", {model_.width});
    segment.outputs = {x_};
    describer_.segment(std::move(segment));
  }

  void describe_layer(int layer) {
    const LayerNode& node = model_.layer;
    const std::string path = "layers." + std::to_string(layer) + ".";
    norm(*node.attention_norm, path + "attention_norm", layer);
    attention(*node.attention, path + "attention", layer);
    residual(node.attention_residual, path + "attention_residual", layer);
    norm(*node.mlp_norm, path + "mlp_norm", layer);
    mlp(*node.mlp, path + "mlp", layer);
    residual(node.mlp_residual, path + "mlp_residual", layer);
  }

  // Leaves its output in branch_.
  void norm(const NormNode& node, const std::string& path, int layer) {
    SegmentDescription segment = begin(SegmentKind::kNorm, path, layer, &node);
    segment.parameters = node.describe(describer_, path, model_.width);
    segment.inputs = segment.kept = {x_};
    branch_ = describer_.value(path + ".output", {model_.width});
    segment.outputs = {branch_};
    segment.formula.saved_per_token = node.statistics_per_row();
    describer_.segment(std::move(segment));
  }

  void attention(const AttentionNode& node, const std::string& path, int layer) {
    SegmentDescription inputs = begin(SegmentKind::kQueryKeyValue, path + ".query_key_value", layer, &node);
    inputs.inputs = {branch_};
    node.describe_query_key_value(describer_, path, inputs);
    SegmentDescription core = begin(SegmentKind::kAttention, path + ".core", layer, &node);
    core.inputs = inputs.outputs;
    describer_.segment(std::move(inputs));
    node.describe_core(describer_, path, core);
    branch_ = core.outputs.front();
    describer_.segment(std::move(core));
  }

  void mlp(const MlpNode& node, const std::string& path, int layer) {
    SegmentDescription segment = begin(SegmentKind::kMlp, path, layer, &node);
    segment.inputs = segment.kept = {branch_};
    node.describe(describer_, path, segment);
    branch_ = describer_.value(path + ".output", {model_.width});
    segment.outputs = {branch_};
    describer_.segment(std::move(segment));
  }

  void residual(const ResidualNode& node, const std::string& path, int layer) {
    SegmentDescription segment = begin(SegmentKind::kResidual, path, layer, &node);
    segment.inputs = {x_, branch_};
    x_ = describer_.value(path + ".output", {model_.width});
    segment.outputs = {x_};
    describer_.segment(std::move(segment));
  }

  void head() {
    const HeadNode& node = *model_.head;
    SegmentDescription logits = begin(SegmentKind::kLogits, "head", -1, &node);
    logits.parameters = {
        node.tied() ? 0 : describer_.table("head.weight", model_.vocabulary, ParameterClass::kHead, kRows)};
    logits.inputs = logits.kept = {branch_};
    const int value = describer_.value("head.logits", {model_.vocabulary});
    const int statistics = describer_.value("head.statistics", {3});
    logits.outputs = {value, statistics};
    logits.formula.forward_flops_per_token = 2.0 * static_cast<double>(model_.width * model_.vocabulary);
    logits.formula.backward_ratio = 2;
    describer_.segment(std::move(logits));

    SegmentDescription loss = begin(SegmentKind::kLoss, "loss", -1, &node);
    loss.inputs = {value, statistics};
    loss.kept = {value};
    loss.outputs = {describer_.value("loss", {})};
    describer_.segment(std::move(loss));
  }

  const ModelNode& model_;
  Describer& describer_;
  int x_ = -1;
  int branch_ = -1;
};

}  // namespace

ModelDescription describe(const ModelNode& model) {
  check(model);
  ModelDescription description;
  description.vocabulary = model.vocabulary;
  description.width = model.width;
  description.layers = model.layers;
  description.maximum_positions = model.positions;
  const double deviation = model.initializer.standard_deviation;
  const double depth = std::sqrt(2.0 * static_cast<double>(description.layers));
  const bool scaled = model.initializer.output_projections == "depth";
  Describer describer(description, {deviation, scaled ? deviation / depth : deviation});
  Walk(model, describer).run();
  return description;
}

std::string_view segment_kind_name(SegmentKind kind) {
  switch (kind) {
    case SegmentKind::kEmbed:
      return "embed";
    case SegmentKind::kNorm:
      return "norm";
    case SegmentKind::kQueryKeyValue:
      return "query_key_value";
    case SegmentKind::kAttention:
      return "attention";
    case SegmentKind::kResidual:
      return "residual";
    case SegmentKind::kMlp:
      return "mlp";
    case SegmentKind::kLogits:
      return "logits";
    case SegmentKind::kLoss:
      return "loss";
  }
  return "unknown";
}

std::string_view parameter_class_name(ParameterClass parameter_class) {
  switch (parameter_class) {
    case ParameterClass::kEmbedding:
      return "embedding";
    case ParameterClass::kHead:
      return "head";
    case ParameterClass::kTied:
      return "tied";
    case ParameterClass::kHiddenMatrix:
      return "hidden_matrix";
    case ParameterClass::kVector:
      return "vector";
    case ParameterClass::kExpert:
      return "expert";
  }
  return "unknown";
}

}  // namespace weft::model
