#include "execute/leaf_exchange.h"

#include <array>
#include <bit>
#include <numeric>
#include <vector>

#include <ATen/ATen.h>

#include "tensor/collectives.h"

namespace weft::execute {
namespace {

// One node in the message: what a Block holds, the node, and the number of columns (-1: a vector).
constexpr size_t kFields = 8;
using Record = std::array<int64_t, kFields>;

Record record_of(const nn::LeafGradients::Block& block, LeafNode node, const at::Tensor& value) {
  return {block.parameter,       block.first_row, block.end_row, std::bit_cast<int64_t>(block.use),
          block.leaves_per_unit, node.level,      node.index,    value.dim() > 1 ? value.size(1) : -1};
}

std::vector<int64_t> gathered(const std::vector<int64_t>& own, std::span<const int64_t> counts,
                              comm::Communicator& group, std::string_view what) {
  std::vector<int64_t> all(static_cast<size_t>(std::accumulate(counts.begin(), counts.end(), int64_t{0})));
  constexpr auto kType = mesh::ElementType::kInt64;
  group
      .all_gather({own.data(), static_cast<int64_t>(own.size()), kType},
                  {all.data(), static_cast<int64_t>(all.size()), kType}, counts, what)
      ->wait();
  return all;
}

}  // namespace

void exchange_leaves(const nn::LeafGradients& leaves, const std::function<bool(int parameter)>& chosen,
                     comm::Communicator& group, nn::LeafGradients& all) {
  std::vector<int64_t> records;
  std::vector<at::Tensor> values = {at::empty({0}, at::kFloat)};
  for (const auto& [block, sum] : leaves.blocks()) {
    if (!chosen(block.parameter)) continue;
    const std::vector<LeafNode> nodes = sum.nodes();
    const std::vector<at::Tensor> tensors = sum.values();
    for (size_t i = 0; i < nodes.size(); ++i) {
      const Record record = record_of(block, nodes[i], tensors[i]);
      records.insert(records.end(), record.begin(), record.end());
      values.push_back(tensors[i].reshape({-1}));
    }
  }
  const at::Tensor own = at::cat(values);
  const auto members = static_cast<size_t>(group.size());
  const std::vector<int64_t> sizes = gathered({static_cast<int64_t>(records.size()), own.numel()},
                                              std::vector<int64_t>(members, 2), group, "sizes of strict sums");
  std::vector<int64_t> record_counts, value_counts;
  for (size_t member = 0; member < members; ++member) {
    record_counts.push_back(sizes[2 * member]);
    value_counts.push_back(sizes[2 * member + 1]);
  }
  const std::vector<int64_t> all_records = gathered(records, record_counts, group, "nodes of strict sums");
  const at::Tensor all_values = tensor::all_gather_dim(own, 0, value_counts, group, "strict sums");
  int64_t begin = 0;
  for (size_t at = 0; at < all_records.size(); at += kFields) {
    const int64_t* record = all_records.data() + at;
    const nn::LeafGradients::Block block{static_cast<int>(record[0]), record[1], record[2],
                                         std::bit_cast<uint64_t>(record[3]), record[4]};
    const int64_t rows = block.end_row - block.first_row;
    const bool vector = record[7] < 0;
    const int64_t size = vector ? rows : rows * record[7];
    const at::Tensor flat = all_values.narrow(0, begin, size).clone();
    all.add(block, {static_cast<int>(record[5]), record[6]}, vector ? flat : flat.view({rows, record[7]}));
    begin += size;
  }
}

}  // namespace weft::execute
