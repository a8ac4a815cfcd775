#include "kernel/attention_blocks.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <ATen/ATen.h>

#include "base/check.h"
#include "kernel/random.h"
#include "kernel/rows.h"

namespace weft::kernel {
namespace {

// Queries a block: few enough that half a block of masked scores is cheap, many enough that a product fills the
// processor.
constexpr int64_t kBlock = 64;

struct Sizes {
  int64_t sequences, length, heads, keys, kv_heads, head_dim;
  explicit Sizes(const AttentionInputs& inputs)
      : sequences(inputs.query.size(0)),
        length(inputs.query.size(1)),
        heads(inputs.query.size(2)),
        keys(inputs.key.size(1)),
        kv_heads(inputs.key.size(2)),
        head_dim(inputs.query.size(3)) {
    WEFT_CHECK(kv_heads > 0 && heads % kv_heads == 0 && keys >= length);
    WEFT_CHECK(inputs.value.sizes() == inputs.key.sizes() && inputs.key.size(3) == head_dim);
  }
  [[nodiscard]] int64_t group() const { return heads / kv_heads; }
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
    WEFT_CHECK(options.documents.is_contiguous() && options.documents.size(1) == sizes.keys);
    documents = options.documents.const_data_ptr<int64_t>() + sequence * sizes.keys;
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
  const auto row =
      (id * static_cast<uint64_t>(sizes.length) + static_cast<uint64_t>(query)) * static_cast<uint64_t>(sizes.heads) +
      static_cast<uint64_t>(head);
  return row * static_cast<uint64_t>(sizes.keys);
}

}  // namespace

AttentionResult attention_forward_blocks(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                         const AttentionOptions& options) {
  const AttentionInputs inputs{query, key, value};
  const Sizes sizes(inputs);
  const Loops& table = loops();
  const auto scale = static_cast<float>(options.scale);
  AttentionResult result;
  result.output = at::empty({sizes.sequences, sizes.length, sizes.heads, sizes.head_dim}, query.options());
  result.logsumexp = at::empty({sizes.sequences, sizes.heads, sizes.length}, query.options().dtype(at::kFloat));
  auto* logsumexp = data_of<float>(result.logsumexp);
  std::vector<float> scores(static_cast<size_t>(std::min(kBlock, sizes.length) * sizes.keys));
  std::vector<float> scratch[4];

  for (int64_t sequence = 0; sequence < sizes.sequences; ++sequence) {
    const std::vector<int64_t> first = first_keys(sizes, sequence, options);
    for (int64_t head = 0; head < sizes.heads; ++head, logsumexp += sizes.length) {
      const HeadMatrix q(query, sequence, head, true, scratch[0]);
      const HeadMatrix k(key, sequence, head / sizes.group(), true, scratch[1]);
      const HeadMatrix v(value, sequence, head / sizes.group(), true, scratch[2]);
      const HeadMatrix out(result.output, sequence, head, false, scratch[3]);
      each_block(sizes, first, [&](const Block& block) {
        multiply(block.queries, block.keys, sizes.head_dim, 1, q.from(block.query), k.from(block.key, true), 0,
                 scores.data(), block.keys);
        float inverse_sums[kBlock];
        for (int64_t row = 0; row < block.queries; ++row) {
          float* row_scores = scores.data() + row * block.keys;
          const Seen part = seen(block, row, first, sizes);
          float maximum = 0, sum = 0;
          table.softmax_row(row_scores + part.first, part.count, scale, &maximum, &sum);
          clear_unseen(row_scores, block, part);
          if (options.dropout.enabled()) {
            table.float32.dropout(
                row_scores, block.keys, options.dropout.mask(),
                mask_place(sizes, options, sequence, block.query + row, head) + static_cast<uint64_t>(block.key));
          }
          inverse_sums[row] = 1 / sum;
          logsumexp[block.query + row] = maximum + std::log(sum);
        }
        multiply(block.queries, sizes.head_dim, block.keys, 1, {scores.data(), block.keys}, v.from(block.key), 0,
                 out.row(block.query), out.stride());
        for (int64_t row = 0; row < block.queries; ++row) {
          table.float32.scale(out.row(block.query + row), inverse_sums[row], sizes.head_dim);
        }
      });
      out.write();
    }
  }
  return result;
}

AttentionInputs attention_backward_blocks(const at::Tensor& doutput, const AttentionInputs& inputs,
                                          const AttentionResult& result, const AttentionOptions& options) {
  const Sizes sizes(inputs);
  const Loops& table = loops();
  const auto scale = static_cast<float>(options.scale);
  const auto* logsumexp = data_of<float>(result.logsumexp);
  AttentionInputs gradients = empty_gradients(inputs);
  const auto block_values = static_cast<size_t>(std::min(kBlock, sizes.length) * sizes.keys);
  std::vector<float> probabilities(block_values), dprobabilities(block_values), used;
  if (options.dropout.enabled()) used.resize(block_values);
  std::vector<float> scratch[8];

  for (int64_t sequence = 0; sequence < sizes.sequences; ++sequence) {
    const std::vector<int64_t> first = first_keys(sizes, sequence, options);
    for (int64_t kv_head = 0; kv_head < sizes.kv_heads; ++kv_head) {
      const HeadMatrix k(inputs.key, sequence, kv_head, true, scratch[0]);
      const HeadMatrix v(inputs.value, sequence, kv_head, true, scratch[1]);
      const HeadMatrix dk(gradients.key, sequence, kv_head, false, scratch[2]);
      const HeadMatrix dv(gradients.value, sequence, kv_head, false, scratch[3]);
      dk.clear();
      dv.clear();
      for (int64_t head = kv_head * sizes.group(); head < (kv_head + 1) * sizes.group(); ++head) {
        const HeadMatrix q(inputs.query, sequence, head, true, scratch[4]);
        const HeadMatrix out(result.output, sequence, head, true, scratch[5]);
        const HeadMatrix dout(doutput, sequence, head, true, scratch[6]);
        const HeadMatrix dq(gradients.query, sequence, head, false, scratch[7]);
        const float* head_logsumexp = logsumexp + (sequence * sizes.heads + head) * sizes.length;
        each_block(sizes, first, [&](const Block& block) {
          multiply(block.queries, block.keys, sizes.head_dim, 1, q.from(block.query), k.from(block.key, true), 0,
                   probabilities.data(), block.keys);
          multiply(block.queries, block.keys, sizes.head_dim, 1, dout.from(block.query), v.from(block.key, true), 0,
                   dprobabilities.data(), block.keys);
          for (int64_t row = 0; row < block.queries; ++row) {
            float* row_probabilities = probabilities.data() + row * block.keys;
            float* row_dprobabilities = dprobabilities.data() + row * block.keys;
            const Seen part = seen(block, row, first, sizes);
            table.probability_row(row_probabilities + part.first, part.count, scale, head_logsumexp[block.query + row]);
            clear_unseen(row_probabilities, block, part);
            if (options.dropout.enabled()) {
              float* row_used = used.data() + row * block.keys;
              const uint64_t place =
                  mask_place(sizes, options, sequence, block.query + row, head) + static_cast<uint64_t>(block.key);
              std::copy_n(row_probabilities, block.keys, row_used);
              table.float32.dropout(row_used, block.keys, options.dropout.mask(), place);
              table.float32.dropout(row_dprobabilities, block.keys, options.dropout.mask(), place);
            }
            const float delta = table.dot(dout.row(block.query + row), out.row(block.query + row), sizes.head_dim);
            table.score_gradient_row(row_probabilities, row_dprobabilities, block.keys, delta, scale);
          }
          const float* mixture = options.dropout.enabled() ? used.data() : probabilities.data();
          multiply(block.keys, sizes.head_dim, block.queries, 1, {mixture, block.keys, true}, dout.from(block.query), 1,
                   dv.row(block.key), dv.stride());
          multiply(block.queries, sizes.head_dim, block.keys, 1, {dprobabilities.data(), block.keys}, k.from(block.key),
                   0, dq.row(block.query), dq.stride());
          multiply(block.keys, sizes.head_dim, block.queries, 1, {dprobabilities.data(), block.keys, true},
                   q.from(block.query), 1, dk.row(block.key), dk.stride());
        });
        dq.write();
      }
      dk.write();
      dv.write();
    }
  }
  return gradients;
}

}  // namespace weft::kernel
