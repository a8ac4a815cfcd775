#include "model/memory.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "base/check.h"

namespace weft::model {
namespace {

constexpr double kMasterBytes = 4;

// Values (not bytes) that the backward needs again, each once however many segments keep it; the logits apart.
double kept_values_per_token(const ModelDescription& model) {
  std::set<int> kept;
  for (const SegmentDescription& segment : model.segments) {
    if (segment.kind != SegmentKind::kLoss) kept.insert(segment.kept.begin(), segment.kept.end());
  }
  double values = 0;
  for (const int index : kept)
    values += static_cast<double>(model.values[static_cast<size_t>(index)].elements_per_token());
  return values;
}

double border_values_per_token(const ModelDescription& model, const SegmentDescription& segment) {
  double values = 0;
  for (const auto* list : {&segment.inputs, &segment.outputs}) {
    for (const int index : *list) {
      values += static_cast<double>(model.values[static_cast<size_t>(index)].elements_per_token());
    }
  }
  return values;
}

}  // namespace

MemoryEstimate estimate_memory(const ModelDescription& model, const MemoryQuestion& question) {
  WEFT_CHECK(question.frozen.empty() || question.frozen.size() == model.parameters.size());
  MemoryEstimate estimate;
  const double compute_bytes = static_cast<double>(question.compute_bytes);
  for (size_t i = 0; i < model.parameters.size(); ++i) {
    const double elements = static_cast<double>(model.parameters[i].elements());
    const bool frozen = !question.frozen.empty() && question.frozen[i];
    estimate.parameters += kMasterBytes * elements;
    if (compute_bytes != kMasterBytes) estimate.compute_copies += compute_bytes * elements;
    if (frozen) continue;
    estimate.gradients += kMasterBytes * elements;
    estimate.optimizer += kMasterBytes * static_cast<double>(question.optimizer_values) * elements;
  }
  const double token_bytes = compute_bytes * static_cast<double>(question.micro_batch.tokens());
  estimate.activations = token_bytes * kept_values_per_token(model);
  for (const SegmentDescription& segment : model.segments) {
    const double saved = compute_bytes * segment.cost(question.micro_batch).saved_values;
    estimate.activations += saved;
    if (segment.kind == SegmentKind::kLoss || segment.kind == SegmentKind::kLogits) continue;
    // The gradients of what it keeps, of its inputs and of its outputs.
    estimate.workspace = std::max(estimate.workspace, saved + token_bytes * border_values_per_token(model, segment));
  }
  // Logits are fp32; in a narrower compute type their gradient is copied into it for the products.
  const double logit_bytes = compute_bytes == kMasterBytes ? kMasterBytes : kMasterBytes + compute_bytes;
  estimate.logits = logit_bytes * static_cast<double>(question.micro_batch.tokens() * model.vocabulary);
  return estimate;
}

int64_t fitting_sequences(const ModelDescription& model, const MemoryQuestion& question, double bytes) {
  // All that depends on the micro-batch is proportional to its sequences.
  MemoryQuestion one = question;
  one.micro_batch.sequences = 1;
  MemoryQuestion none = question;
  none.micro_batch.sequences = 0;
  const double fixed = estimate_memory(model, none).total();
  const double each = estimate_memory(model, one).total() - fixed;
  WEFT_CHECK(each > 0);
  return std::max<int64_t>(0, static_cast<int64_t>(std::floor((bytes - fixed) / each)));
}

}  // namespace weft::model
