#include <algorithm>
#include <string>

#include <ATen/ATen.h>

#include "base/check.h"
#include "base/hash.h"
#include "kernel/attention.h"
#include "nn/dropout_of_step.h"
#include "nn/linear.h"
#include "nn/segment_kinds.h"

namespace weft::nn {
namespace {

// Makes room for `more` tokens and copies what is held.
void reserve(KeyValueCache::Entry& entry, const at::Tensor& like, int64_t more) {
  const int64_t needed = entry.length + more;
  const int64_t capacity = entry.key.defined() ? entry.key.size(1) : 0;
  if (needed <= capacity) return;
  const int64_t grown = std::max({needed, 2 * capacity, int64_t{64}});
  for (at::Tensor* held : {&entry.key, &entry.value}) {
    at::Tensor larger = at::empty({like.size(0), grown, like.size(2), like.size(3)}, like.options());
    if (held->defined()) larger.narrow(1, 0, entry.length).copy_(held->narrow(1, 0, entry.length));
    *held = larger;
  }
}

// query, key, value -> branch: the mixture of values, then the output projection.
class AttentionSegment : public Segment {
 public:
  explicit AttentionSegment(const model::SegmentDescription& description)
      : node_(node_of<model::GroupedQueryAttention>(description)),
        path_(description.path),
        path_hash_(xxh64(description.path)),
        projection_(projection(description)) {}

  Tensors forward(RunContext& context, const Tensors& inputs, Saved& saved) override {
    const at::Tensor& query = inputs[0];
    kernel::AttentionInputs seen{query, inputs[1], inputs[2]};
    if (context.cache != nullptr) append(context.cache->entries[path_], seen);
    const kernel::AttentionResult mixture =
        kernel::attention_forward(seen.query, seen.key, seen.value, options(context));
    if (context.training) saved.tensors = {query, seen.key, seen.value, mixture.output, mixture.logsumexp};
    const at::Tensor rows = mixture.output.view({query.size(0) * query.size(1), -1});
    return {projection_.forward(*context.parameters, rows).view({query.size(0), query.size(1), -1})};
  }

  Tensors backward(RunContext& context, Saved& saved, Tensors output_gradients) override {
    const kernel::AttentionInputs inputs{saved.tensors[0], saved.tensors[1], saved.tensors[2]};
    const kernel::AttentionResult mixture{saved.tensors[3], saved.tensors[4]};
    const at::Tensor dout = as_rows(output_gradients[0]);
    const at::Tensor dmixture = projection_.input_gradient(*context.parameters, dout).view(mixture.output.sizes());
    projection_.weight_gradients(context, dout, mixture.output.view({dout.size(0), -1}));
    const kernel::AttentionInputs gradients = kernel::attention_backward(dmixture, inputs, mixture, options(context));
    return {gradients.query, gradients.key, gradients.value};
  }

 private:
  static Linear projection(const model::SegmentDescription& description) {
    const std::vector<int>& all = description.parameters;
    return {{all.at(0)}, std::vector<int>(all.begin() + 1, all.end())};
  }

  [[nodiscard]] kernel::AttentionOptions options(const RunContext& context) const {
    kernel::AttentionOptions options;
    options.scale = node_.effective_scale();
    options.window = node_.window;
    if (context.cache == nullptr) options.documents = context.batch->documents;
    options.dropout = dropout_of_step(context, node_.dropout, path_hash_);
    return options;
  }

  // Adds the new keys and values to the cache; the query then sees all that it holds.
  static void append(KeyValueCache::Entry& entry, kernel::AttentionInputs& seen) {
    const int64_t more = seen.key.size(1);
    reserve(entry, seen.key, more);
    entry.key.narrow(1, entry.length, more).copy_(seen.key);
    entry.value.narrow(1, entry.length, more).copy_(seen.value);
    entry.length += more;
    seen.key = entry.key.narrow(1, 0, entry.length);
    seen.value = entry.value.narrow(1, 0, entry.length);
  }

  const model::GroupedQueryAttention& node_;
  std::string path_;
  uint64_t path_hash_;
  Linear projection_;
};

}  // namespace

std::unique_ptr<Segment> make_attention_segment(const model::SegmentDescription& description) {
  return std::make_unique<AttentionSegment>(description);
}

}  // namespace weft::nn
