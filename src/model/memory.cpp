#include "model/memory.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>
#include <utility>

#include "base/check.h"
#include "model/buckets.h"

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

// What a rank computes with: its tensor slices.
double sliced_elements(const ParameterDescription& parameter, const MemoryQuestion& question) {
  const auto elements = static_cast<double>(parameter.elements());
  if (parameter.tensor_cut.kind == TensorCut::Kind::kWhole) return elements;
  const int64_t size = parameter.shape[static_cast<size_t>(parameter.tensor_cut.dim)];
  const Range most = parameter.tensor_cut.held(size, question.tensor, 0);  // no rank holds more than the first
  return elements * static_cast<double>(most.size()) / static_cast<double>(size);
}

struct Elements {
  double all = 0, trained = 0;
  double whole = 0, whole_trained = 0;  // of the largest buckets that are whole at a time at zero 3
};

Elements count_elements(const ModelDescription& model, const MemoryQuestion& question) {
  const ParameterBuckets buckets = parameter_buckets(model);
  std::vector<std::pair<double, double>> by_bucket(static_cast<size_t>(buckets.count));
  Elements elements;
  for (size_t i = 0; i < model.parameters.size(); ++i) {
    const double size = sliced_elements(model.parameters[i], question);
    const bool frozen = !question.frozen.empty() && question.frozen[i];
    auto& bucket = by_bucket[static_cast<size_t>(buckets.of_parameter[i])];
    bucket.first += size;
    elements.all += size;
    if (frozen) continue;
    bucket.second += size;
    elements.trained += size;
  }
  std::ranges::sort(by_bucket, std::greater<>());
  for (size_t i = 0; i < by_bucket.size() && static_cast<int64_t>(i) < question.whole_buckets; ++i) {
    elements.whole += by_bucket[i].first;
    elements.whole_trained += by_bucket[i].second;
  }
  return elements;
}

void estimate_parameters(const ModelDescription& model, const MemoryQuestion& question, MemoryEstimate& estimate) {
  const Elements elements = count_elements(model, question);
  const auto shards = static_cast<double>(question.shards);
  const auto compute_bytes = static_cast<double>(question.compute_bytes);
  const bool divided = question.shards > 1;
  estimate.parameters = kMasterBytes * (elements.all - elements.trained + elements.trained / shards);
  if (compute_bytes != kMasterBytes || divided) {
    estimate.compute_copies = compute_bytes * (divided && question.zero >= 3 ? elements.whole : elements.all);
  }
  estimate.gradients = kMasterBytes * elements.trained;
  if (divided) {
    const double whole = question.zero >= 2 ? elements.whole_trained : elements.trained;
    estimate.gradients = kMasterBytes * (whole + elements.trained / shards);
  }
  estimate.optimizer = kMasterBytes * static_cast<double>(question.optimizer_values) * elements.trained / shards;
}

}  // namespace

MemoryEstimate estimate_memory(const ModelDescription& model, const MemoryQuestion& question) {
  WEFT_CHECK(question.frozen.empty() || question.frozen.size() == model.parameters.size());
  MemoryEstimate estimate;
  estimate_parameters(model, question, estimate);
  const double compute_bytes = static_cast<double>(question.compute_bytes);
  const double tokens = static_cast<double>(question.micro_batch.tokens()) / static_cast<double>(question.context);
  const double token_bytes = compute_bytes * tokens;
  const auto tensor = static_cast<double>(question.tensor);
  estimate.activations = token_bytes * kept_values_per_token(model);
  for (const SegmentDescription& segment : model.segments) {
    const bool is_norm = segment.kind == SegmentKind::kNorm;  // all other segments keep features of heads and ffn
    const double saved = compute_bytes * segment.cost(question.micro_batch).saved_values /
                         (static_cast<double>(question.context) * (is_norm ? 1.0 : tensor));
    estimate.activations += saved;
    if (segment.kind == SegmentKind::kLoss || segment.kind == SegmentKind::kLogits) continue;
    // The gradients of what it keeps, of its inputs and of its outputs.
    estimate.workspace = std::max(estimate.workspace, saved + token_bytes * border_values_per_token(model, segment));
  }
  // Logits are fp32; in a narrower compute type their gradient is copied into it for the products.
  const double logit_bytes = compute_bytes == kMasterBytes ? kMasterBytes : kMasterBytes + compute_bytes;
  estimate.logits = logit_bytes * tokens * static_cast<double>(model.vocabulary) / tensor;
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
