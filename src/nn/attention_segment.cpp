#include <algorithm>
#include <string>

#include <ATen/ATen.h>

#include "base/check.h"
#include "base/hash.h"
#include "kernel/attention.h"
#include "nn/dropout_of_step.h"
#include "nn/leaves.h"
#include "nn/linear.h"
#include "nn/segment_kinds.h"
#include "nn/tokens.h"

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

// query, key, value -> branch: the mixture of values, then the output projection, of the query heads that the tensor
// rank holds. Under context parallelism the queries are those of the rank's tokens, keys and values those of whole
// sequences, and each run of consecutive queries attends to the keys before its end.
class AttentionSegment : public Segment {
 public:
  AttentionSegment(const model::ModelDescription& model, const model::SegmentDescription& description)
      : node_(node_of<model::GroupedQueryAttention>(description)),
        path_(description.path),
        path_hash_(xxh64(description.path)),
        projection_(projection(model, description)) {}

  Tensors forward(RunContext& context, const Tensors& inputs, Saved& saved) override {
    const at::Tensor& query = inputs[0];
    kernel::AttentionInputs seen{query, inputs[1], inputs[2]};
    if (context.cache != nullptr) append(context.cache->entries[path_], seen);
    const kernel::AttentionResult mixture =
        is_whole(context) ? kernel::attention_forward(seen.query, seen.key, seen.value, options(context))
                          : forward_of_runs(context, seen);
    if (context.training) saved.tensors = {query, seen.key, seen.value, mixture.output, mixture.logsumexp};
    const int64_t sequences = query.size(0), length = query.size(1);
    const at::Tensor rows = mixture.output.view({sequences * length, query.size(2) * query.size(3)});
    return {as_sequences(projection_.partial_forward(context, rows), sequences, length)};
  }

  Tensors backward(RunContext& context, Saved& saved, Tensors output_gradients) override {
    const kernel::AttentionInputs inputs{saved.tensors[0], saved.tensors[1], saved.tensors[2]};
    const kernel::AttentionResult mixture{saved.tensors[3], saved.tensors[4]};
    const at::Tensor dout = as_rows(output_gradients[0]);
    const at::Tensor dmixture = projection_.input_gradient(*context.parameters, dout).view(mixture.output.sizes());
    projection_.weight_gradients(context, dout, mixture.output.view({dout.size(0), -1}));
    if (context.shard.strict) return backward_by_leaves(context, dmixture, inputs, mixture);
    if (!is_whole(context)) return backward_of_runs(context, dmixture, inputs, mixture);
    const kernel::AttentionInputs gradients = kernel::attention_backward(dmixture, inputs, mixture, options(context));
    return {gradients.query, gradients.key, gradients.value};
  }

 private:
  static Linear projection(const model::ModelDescription& model, const model::SegmentDescription& description) {
    const std::vector<int>& all = description.parameters;
    return {model, description.path, {all.at(0)}, std::vector<int>(all.begin() + 1, all.end())};
  }

  // One call of the kernel for all tokens.
  static bool is_whole(const RunContext& context) { return context.shard.context == 1 && !context.shard.strict; }

  [[nodiscard]] model::Heads heads() const { return {node_.heads, node_.kv_heads}; }

  [[nodiscard]] kernel::AttentionOptions options(const RunContext& context) const {
    kernel::AttentionOptions options;
    options.scale = node_.effective_scale();
    options.window = node_.window;
    if (context.cache != nullptr) return options;
    options.documents = context.batch->documents;
    const Range held = held_query_heads(heads(), context.shard.tensor, context.shard.tensor_rank);
    options.place = {context.batch->whole_length(), node_.heads, held.begin, heads().group()};
    options.dropout = dropout_of_step(context, node_.dropout, path_hash_);
    return options;
  }

  // The call of the kernel for a run of tokens: its queries, the keys up to its end, and their results.
  struct Run {
    kernel::AttentionInputs inputs;
    kernel::AttentionResult result;
    kernel::AttentionOptions options;
  };

  [[nodiscard]] Run run_of(const RunContext& context, const TokenRun& tokens, const kernel::AttentionInputs& all,
                           const kernel::AttentionResult& mixture) const {
    const int64_t first = tokens.first, count = tokens.positions.size(), keys = tokens.positions.end;
    Run run{{all.query.narrow(1, first, count), all.key.narrow(1, 0, keys), all.value.narrow(1, 0, keys)},
            {mixture.output.narrow(1, first, count), mixture.logsumexp.narrow(2, first, count).contiguous()},
            options(context)};
    if (run.options.documents.defined()) run.options.documents = run.options.documents.narrow(1, 0, keys);
    return run;
  }

  // In strict mode units are runs, so that no product's sum over keys depends on the layout.
  static std::vector<TokenRun> runs(const RunContext& context) {
    const HeldTokens tokens = context_tokens(context);
    if (!context.shard.strict) return tokens.runs();
    std::vector<TokenRun> units = tokens.units;
    std::erase_if(units, [](const TokenRun& unit) { return unit.positions.size() == 0; });
    return units;
  }

  [[nodiscard]] kernel::AttentionResult forward_of_runs(const RunContext& context,
                                                        const kernel::AttentionInputs& inputs) const {
    const at::Tensor& query = inputs.query;
    kernel::AttentionResult all{
        at::empty(query.sizes(), query.options()),
        at::empty({query.size(0), query.size(2), query.size(1)}, query.options().dtype(at::kFloat))};
    for (const TokenRun& tokens : runs(context)) {
      const Run run = run_of(context, tokens, inputs, all);
      const kernel::AttentionResult result =
          kernel::attention_forward(run.inputs.query, run.inputs.key, run.inputs.value, run.options);
      run.result.output.copy_(result.output);
      all.logsumexp.narrow(2, tokens.first, tokens.positions.size()).copy_(result.logsumexp);
    }
    return all;
  }

  [[nodiscard]] Tensors backward_of_runs(const RunContext& context, const at::Tensor& dmixture,
                                         const kernel::AttentionInputs& inputs,
                                         const kernel::AttentionResult& mixture) const {
    const at::Tensor dquery = at::empty(inputs.query.sizes(), inputs.query.options());
    const at::Tensor dkey = at::zeros(inputs.key.sizes(), inputs.key.options());
    const at::Tensor dvalue = at::zeros(inputs.value.sizes(), inputs.value.options());
    for (const TokenRun& tokens : runs(context)) {
      const int64_t first = tokens.first, count = tokens.positions.size(), keys = tokens.positions.end;
      const Run run = run_of(context, tokens, inputs, mixture);
      const kernel::AttentionInputs gradients =
          kernel::attention_backward(dmixture.narrow(1, first, count), run.inputs, run.result, run.options);
      dquery.narrow(1, first, count).copy_(gradients.query);
      dkey.narrow(1, 0, keys).add_(gradients.key);
      dvalue.narrow(1, 0, keys).add_(gradients.value);
    }
    return {dquery, dkey, dvalue};
  }

  // Gradients of key and value by query head, [sequences, length, query heads held, head_dim], since a key/value head's
  // query heads may be on several ranks; summed over the units of queries, as a stack where other ranks hold some.
  [[nodiscard]] Tensors backward_by_leaves(const RunContext& context, const at::Tensor& dmixture,
                                           const kernel::AttentionInputs& inputs,
                                           const kernel::AttentionResult& mixture) const {
    const at::Tensor dquery = at::empty(inputs.query.sizes(), inputs.query.options());
    TensorSum dkey, dvalue;
    for (const TokenRun& unit : context_tokens(context).units) {
      std::vector<int64_t> shape = inputs.query.sizes().vec();
      shape[1] = inputs.key.size(1);
      const at::Tensor key_leaf = at::zeros(shape, inputs.key.options());
      const at::Tensor value_leaf = at::zeros(shape, inputs.value.options());
      if (unit.positions.size() > 0) {
        const Run run = run_of(context, unit, inputs, mixture);
        const auto tokens = [&](const at::Tensor& all) { return all.narrow(1, unit.first, unit.positions.size()); };
        const auto keys = [&](const at::Tensor& all) { return all.narrow(1, 0, unit.positions.end); };
        backward_by_heads(run, tokens(dmixture), {tokens(dquery), keys(key_leaf), keys(value_leaf)});
      }
      dkey.add({0, unit.unit}, key_leaf);
      dvalue.add({0, unit.unit}, value_leaf);
    }
    const bool all = context.shard.context == 1;
    return {dquery, sum_or_stack(dkey, kUnits, all), sum_or_stack(dvalue, kUnits, all)};
  }

  // One call of the kernel a query head; `gradients` have query heads throughout.
  static void backward_by_heads(const Run& run, const at::Tensor& dmixture, const kernel::AttentionInputs& gradients) {
    const int64_t first = run.options.place.first_head, group = run.options.place.group;
    for (int64_t head = 0; head < run.inputs.query.size(2); ++head) {
      const auto own = [&](const at::Tensor& all) { return all.narrow(2, head, 1); };
      const auto shared = [&](const at::Tensor& all) {
        return all.narrow(2, (first + head) / group - first / group, 1);
      };
      kernel::AttentionOptions options = run.options;
      options.place.first_head += head;
      const kernel::AttentionInputs got = kernel::attention_backward(
          own(dmixture), {own(run.inputs.query), shared(run.inputs.key), shared(run.inputs.value)},
          {own(run.result.output), run.result.logsumexp.narrow(1, head, 1).contiguous()}, options);
      own(gradients.query).copy_(got.query);
      own(gradients.key).copy_(got.key);
      own(gradients.value).copy_(got.value);
    }
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

std::unique_ptr<Segment> make_attention_segment(const model::ModelDescription& model,
                                                const model::SegmentDescription& description) {
  return std::make_unique<AttentionSegment>(model, description);
}

}  // namespace weft::nn
