#include "kernel/attention_blocks.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <ATen/ATen.h>

#include "base/check.h"
#include "kernel/parallel.h"
#include "kernel/rows.h"

namespace weft::kernel {
namespace {

// Queries a block: few enough that half a block of masked scores is cheap, many enough that a product fills the
// processor.
constexpr int64_t kBlock = 64;

struct Sizes {
  int64_t sequences, length, heads, keys, kv_heads, head_dim;
  AttentionPlace place;
  Sizes(const AttentionInputs& inputs, const AttentionPlace& given)
      : sequences(inputs.query.size(0)),
        length(inputs.query.size(1)),
        heads(inputs.query.size(2)),
        keys(inputs.key.size(1)),
        kv_heads(inputs.key.size(2)),
        head_dim(inputs.query.size(3)),
        place(given) {
    WEFT_CHECK(kv_heads > 0 && keys >= length);
    if (place.length == 0) place.length = keys;
    if (place.heads == 0) place.heads = heads;
    if (place.group == 0) place.group = heads / kv_heads;
    WEFT_CHECK(kv_head(heads - 1) == kv_heads - 1 && place.length >= keys);
    WEFT_CHECK(inputs.value.sizes() == inputs.key.sizes() && inputs.key.size(3) == head_dim);
  }
  // The key/value head of a query head, both as numbered in the tensors.
  [[nodiscard]] int64_t kv_head(int64_t head) const {
    return (place.first_head + head) / place.group - place.first_head / place.group;
  }
  // The query heads of a key/value head.
  [[nodiscard]] Range group(int64_t kv_head) const {
    const int64_t first = (place.first_head / place.group + kv_head) * place.group - place.first_head;
    return {std::max(first, int64_t{0}), std::min(first + place.group, heads)};
  }
  [[nodiscard]] int64_t offset() const { return keys - length; }  // the key at which query 0 stands
};

// One head's rows as fp32: the tensor's own memory, or a copy where its type is another. Of a copy, write() puts it
// back.
class HeadMatrix {
 public:
  HeadMatrix(const at::Tensor& tensor, int64_t sequence, int64_t head, bool load, std::vector<float>& scratch)
      : rows_{tensor.size(1), 1, tensor.size(3), tensor.stride(1)},
        place_(sequence * tensor.stride(0) + head * tensor.stride(2)) {
    if (tensor.scalar_type() == at::kFloat) {
      data_ = data_of<float>(tensor) + place_;
      stride_ = rows_.stride;
      return;
    }
    original_ = data_of<BFloat16>(tensor) + place_;
    scratch.resize(static_cast<size_t>(rows_.outer * rows_.width));
    data_ = scratch.data();
    stride_ = rows_.width;
    if (load) loops().bfloat16.to_float(original_, rows_, data_, stride_);
  }

  void write() const {
    if (original_ != nullptr) loops().bfloat16.from_float(data_, stride_, original_, rows_);
  }
  void clear() const {
    for (int64_t row = 0; row < rows_.outer; ++row) std::fill_n(data_ + row * stride_, rows_.width, 0.0F);
  }
  [[nodiscard]] float* row(int64_t index) const { return data_ + index * stride_; }
  [[nodiscard]] int64_t stride() const { return stride_; }
  [[nodiscard]] BlasMatrix<float> from(int64_t index, bool transposed = false) const {
    return {row(index), stride_, transposed};
  }

 private:
  RowLayout rows_;
  int64_t place_;
  float* data_ = nullptr;
  BFloat16* original_ = nullptr;
  int64_t stride_ = 0;
};

// The first key that each query of a sequence sees; grows with the query, so a block's first query decides where it
// starts.
std::vector<int64_t> first_keys(const Sizes& sizes, int64_t sequence, const AttentionOptions& options) {
  std::vector<int64_t> first(static_cast<size_t>(sizes.length), 0);
  const int64_t* documents = nullptr;
  if (options.documents.defined()) {
    WEFT_CHECK(options.documents.stride(1) == 1 && options.documents.size(1) == sizes.keys);
    documents = options.documents.const_data_ptr<int64_t>() + sequence * options.documents.stride(0);
  }
  int64_t document_start = 0;
  for (int64_t key = 0; key < sizes.keys; ++key) {
    if (documents != nullptr && key > 0 && documents[key] != documents[key - 1]) document_start = key;
    const int64_t query = key - sizes.offset();
    if (query < 0) continue;
    const int64_t window_start = options.window > 0 ? key - options.window + 1 : 0;
    first[static_cast<size_t>(query)] = std::max({document_start, window_start, int64_t{0}});
  }
  return first;
}

// A block of queries and the keys that any of them sees.
struct Block {
  int64_t query, queries;
  int64_t key, keys;
};

template <typename Body>
void each_block(const Sizes& sizes, const std::vector<int64_t>& first, Body body) {
  for (int64_t query = 0; query < sizes.length; query += kBlock) {
    const int64_t queries = std::min(kBlock, sizes.length - query);
    const int64_t key = first[static_cast<size_t>(query)];
    body(Block{query, queries, key, query + queries + sizes.offset() - key});
  }
}

// The part of a row of scores that its query sees, relative to the block's first key.
struct Seen {
  int64_t first, count;
};

Seen seen(const Block& block, int64_t row, const std::vector<int64_t>& first, const Sizes& sizes) {
  const int64_t begin = first[static_cast<size_t>(block.query + row)] - block.key;
  return {begin, block.query + row + sizes.offset() + 1 - block.key - begin};
}

void clear_unseen(float* scores, const Block& block, const Seen& part) {
  std::fill(scores, scores + part.first, 0.0F);
  std::fill(scores + part.first + part.count, scores + block.keys, 0.0F);
}

// The number in the mask's stream of a query's probability of key 0.
uint64_t mask_place(const Sizes& sizes, const AttentionOptions& options, int64_t sequence, int64_t query,
                    int64_t head) {
  const auto id = static_cast<uint64_t>(options.dropout.sample_ids.const_data_ptr<int64_t>()[sequence]);
  const auto length = static_cast<uint64_t>(sizes.place.length);
  const auto position = static_cast<uint64_t>(sizes.offset() + query);
  const auto row = (id * length + position) * static_cast<uint64_t>(sizes.place.heads) +
                   static_cast<uint64_t>(sizes.place.first_head + head);
  return row * length;
}

std::vector<std::vector<int64_t>> all_first_keys(const Sizes& sizes, const AttentionOptions& options) {
  std::vector<std::vector<int64_t>> first;
  for (int64_t sequence = 0; sequence < sizes.sequences; ++sequence) {
    first.push_back(first_keys(sizes, sequence, options));
  }
  return first;
}

// What one thread works with.
struct Scratch {
  std::vector<float> heads[8];  // fp32 copies of heads, where they are of another type
  std::vector<float> probabilities, dprobabilities, used;
  explicit Scratch(const Sizes& sizes, bool backward, bool dropout) {
    const auto block = static_cast<size_t>(std::min(kBlock, sizes.length) * sizes.keys);
    probabilities.resize(block);
    if (backward) dprobabilities.resize(block);
    if (backward && dropout) used.resize(block);
  }
};

class Forward {
 public:
  Forward(const AttentionInputs& inputs, const AttentionResult& result, const AttentionOptions& options)
      : inputs_(inputs),
        result_(result),
        options_(options),
        sizes_(inputs, options.place),
        first_(all_first_keys(sizes_, options)) {}

  // Heads are numbered sequence by sequence.
  void run(int64_t begin, int64_t end) const {
    Scratch scratch(sizes_, false, options_.dropout.enabled());
    for (int64_t number = begin; number < end; ++number) head(number / sizes_.heads, number % sizes_.heads, scratch);
  }

 private:
  void head(int64_t sequence, int64_t head, Scratch& scratch) const {
    const int64_t kv_head = sizes_.kv_head(head);
    const HeadMatrix q(inputs_.query, sequence, head, true, scratch.heads[0]);
    const HeadMatrix k(inputs_.key, sequence, kv_head, true, scratch.heads[1]);
    const HeadMatrix v(inputs_.value, sequence, kv_head, true, scratch.heads[2]);
    const HeadMatrix out(result_.output, sequence, head, false, scratch.heads[3]);
    float* logsumexp = data_of<float>(result_.logsumexp) + (sequence * sizes_.heads + head) * sizes_.length;
    const std::vector<int64_t>& first = first_[static_cast<size_t>(sequence)];
    each_block(sizes_, first, [&](const Block& block) {
      float* scores = scratch.probabilities.data();
      multiply(block.queries, block.keys, sizes_.head_dim, 1, q.from(block.query), k.from(block.key, true), 0, scores,
               block.keys);
      float inverse_sums[kBlock];
      for (int64_t row = 0; row < block.queries; ++row) {
        inverse_sums[row] = softmax(block, row, sequence, head, scores + row * block.keys, logsumexp);
      }
      multiply(block.queries, sizes_.head_dim, block.keys, 1, {scores, block.keys}, v.from(block.key), 0,
               out.row(block.query), out.stride());
      for (int64_t row = 0; row < block.queries; ++row) {
        loops().float32.scale(out.row(block.query + row), inverse_sums[row], sizes_.head_dim);
      }
    });
    out.write();
  }

  // Turns a row of scores into unnormalised probabilities; returns what normalises them.
  float softmax(const Block& block, int64_t row, int64_t sequence, int64_t head, float* scores,
                float* logsumexp) const {
    const Seen part = seen(block, row, first_[static_cast<size_t>(sequence)], sizes_);
    float maximum = 0, sum = 0;
    loops().softmax_row(scores + part.first, part.count, static_cast<float>(options_.scale), &maximum, &sum);
    clear_unseen(scores, block, part);
    if (options_.dropout.enabled()) {
      loops().float32.dropout(
          scores, block.keys, options_.dropout.mask(),
          mask_place(sizes_, options_, sequence, block.query + row, head) + static_cast<uint64_t>(block.key));
    }
    logsumexp[block.query + row] = maximum + std::log(sum);
    return 1 / sum;
  }

  const AttentionInputs& inputs_;
  const AttentionResult& result_;
  const AttentionOptions& options_;
  Sizes sizes_;
  std::vector<std::vector<int64_t>> first_;
};

class Backward {
 public:
  Backward(const at::Tensor& doutput, const AttentionInputs& inputs, const AttentionResult& result,
           const AttentionOptions& options, const AttentionInputs& gradients)
      : doutput_(doutput),
        inputs_(inputs),
        result_(result),
        options_(options),
        gradients_(gradients),
        sizes_(inputs, options.place),
        first_(all_first_keys(sizes_, options)) {}

  // Key/value heads, numbered sequence by sequence: each belongs to one thread, with all query heads that share it.
  void run(int64_t begin, int64_t end) const {
    Scratch scratch(sizes_, true, options_.dropout.enabled());
    for (int64_t number = begin; number < end; ++number)
      group(number / sizes_.kv_heads, number % sizes_.kv_heads, scratch);
  }

 private:
  struct Head {
    int64_t sequence, head;
    const HeadMatrix &q, &k, &v, &out, &dout, &dq, &dk, &dv;
    const float* logsumexp;
  };

  void group(int64_t sequence, int64_t kv_head, Scratch& scratch) const {
    const HeadMatrix k(inputs_.key, sequence, kv_head, true, scratch.heads[0]);
    const HeadMatrix v(inputs_.value, sequence, kv_head, true, scratch.heads[1]);
    const HeadMatrix dk(gradients_.key, sequence, kv_head, false, scratch.heads[2]);
    const HeadMatrix dv(gradients_.value, sequence, kv_head, false, scratch.heads[3]);
    dk.clear();
    dv.clear();
    const Range heads = sizes_.group(kv_head);
    for (int64_t head = heads.begin; head < heads.end; ++head) {
      const HeadMatrix q(inputs_.query, sequence, head, true, scratch.heads[4]);
      const HeadMatrix out(result_.output, sequence, head, true, scratch.heads[5]);
      const HeadMatrix dout(doutput_, sequence, head, true, scratch.heads[6]);
      const HeadMatrix dq(gradients_.query, sequence, head, false, scratch.heads[7]);
      const float* logsumexp = data_of<float>(result_.logsumexp) + (sequence * sizes_.heads + head) * sizes_.length;
      const Head all{sequence, head, q, k, v, out, dout, dq, dk, dv, logsumexp};
      each_block(sizes_, first_[static_cast<size_t>(sequence)], [&](const Block& part) { block(all, part, scratch); });
      dq.write();
    }
    dk.write();
    dv.write();
  }

  void block(const Head& head, const Block& block, Scratch& scratch) const {
    float *probabilities = scratch.probabilities.data(), *dprobabilities = scratch.dprobabilities.data();
    const int64_t queries = block.queries, keys = block.keys, head_dim = sizes_.head_dim;
    multiply(queries, keys, head_dim, 1, head.q.from(block.query), head.k.from(block.key, true), 0, probabilities,
             keys);
    multiply(queries, keys, head_dim, 1, head.dout.from(block.query), head.v.from(block.key, true), 0, dprobabilities,
             keys);
    for (int64_t row = 0; row < queries; ++row) {
      score_gradients(head, block, row, scratch, probabilities + row * keys, dprobabilities + row * keys);
    }
    const float* mixture = options_.dropout.enabled() ? scratch.used.data() : probabilities;
    multiply(keys, head_dim, queries, 1, {mixture, keys, true}, head.dout.from(block.query), 1, head.dv.row(block.key),
             head.dv.stride());
    multiply(queries, head_dim, keys, 1, {dprobabilities, keys}, head.k.from(block.key), 0, head.dq.row(block.query),
             head.dq.stride());
    multiply(keys, head_dim, queries, 1, {dprobabilities, keys, true}, head.q.from(block.query), 1,
             head.dk.row(block.key), head.dk.stride());
  }

  // Scores become probabilities, their gradients those of the scores; with dropout, what the values were mixed by is
  // kept too.
  void score_gradients(const Head& head, const Block& block, int64_t row, Scratch& scratch, float* probabilities,
                       float* dprobabilities) const {
    const int64_t query = block.query + row;
    const auto scale = static_cast<float>(options_.scale);
    const Seen part = seen(block, row, first_[static_cast<size_t>(head.sequence)], sizes_);
    loops().probability_row(probabilities + part.first, part.count, scale, head.logsumexp[query]);
    clear_unseen(probabilities, block, part);
    if (options_.dropout.enabled()) {
      float* used = scratch.used.data() + row * block.keys;
      const uint64_t place =
          mask_place(sizes_, options_, head.sequence, query, head.head) + static_cast<uint64_t>(block.key);
      std::copy_n(probabilities, block.keys, used);
      loops().float32.dropout(used, block.keys, options_.dropout.mask(), place);
      loops().float32.dropout(dprobabilities, block.keys, options_.dropout.mask(), place);
    }
    const float delta = loops().dot(head.dout.row(query), head.out.row(query), sizes_.head_dim);
    loops().score_gradient_row(probabilities, dprobabilities, block.keys, delta, scale);
  }

  const at::Tensor& doutput_;
  const AttentionInputs& inputs_;
  const AttentionResult& result_;
  const AttentionOptions& options_;
  const AttentionInputs& gradients_;
  Sizes sizes_;
  std::vector<std::vector<int64_t>> first_;
};

}  // namespace

AttentionResult attention_forward_blocks(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                         const AttentionOptions& options) {
  const AttentionInputs inputs{query, key, value};
  AttentionResult result;
  result.output = at::empty(query.sizes(), query.options());
  result.logsumexp = at::empty({query.size(0), query.size(2), query.size(1)}, query.options().dtype(at::kFloat));
  const Forward forward(inputs, result, options);
  parallel_ranges(query.size(0) * query.size(2), 1, [&](int64_t begin, int64_t end) { forward.run(begin, end); });
  return result;
}

AttentionInputs attention_backward_blocks(const at::Tensor& doutput, const AttentionInputs& inputs,
                                          const AttentionResult& result, const AttentionOptions& options) {
  AttentionInputs gradients = empty_gradients(inputs);
  const Backward backward(doutput, inputs, result, options, gradients);
  parallel_ranges(inputs.key.size(0) * inputs.key.size(2), 1,
                  [&](int64_t begin, int64_t end) { backward.run(begin, end); });
  return gradients;
}

}  // namespace weft::kernel
