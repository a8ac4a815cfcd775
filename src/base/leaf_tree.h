// Sums whose bits do not depend on who adds which part: terms are the leaves of a fixed binary tree, numbered from 0,
// and a node's value is its left child's plus its right child's. Whoever holds consecutive leaves adds the complete
// subtrees inside them; the others' nodes are added on, and the sum is the same however the leaves were divided
// (docs/strict-mode.md).
#pragma once

#include <compare>
#include <cstdint>
#include <iterator>
#include <map>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/units.h"

namespace weft {

// The subtree over leaves [index << level, (index + 1) << level).
struct LeafNode {
  int level = 0;
  int64_t index = 0;
  [[nodiscard]] int64_t first() const { return index << level; }
  [[nodiscard]] int64_t end() const { return (index + 1) << level; }
  friend auto operator<=>(const LeafNode&, const LeafNode&) = default;
};

// The largest subtrees that lie inside the ranges, in the order of their leaves. Ranges are ascending and disjoint;
// those that touch count as one.
[[nodiscard]] inline std::vector<LeafNode> complete_subtrees(const std::vector<Range>& ranges) {
  std::vector<LeafNode> nodes;
  for (size_t i = 0; i < ranges.size(); ++i) {
    int64_t leaf = ranges[i].begin;
    while (i + 1 < ranges.size() && ranges[i + 1].begin == ranges[i].end) ++i;
    while (leaf < ranges[i].end) {
      LeafNode node{0, leaf};
      for (LeafNode above = node; above.first() == leaf && above.end() <= ranges[i].end;
           above = {node.level + 1, node.index / 2}) {
        node = above;
      }
      nodes.push_back(node);
      leaf = node.end();
    }
  }
  return nodes;
}

// The nodes added so far, siblings merged as soon as both are there. Add: T(T left, T right), which may reuse either.
template <typename T, typename Add>
class LeafSum {
 public:
  explicit LeafSum(Add add = {}) : add_(std::move(add)) {}

  // No leaf may be added twice.
  void add(LeafNode node, T value) {
    for (;;) {
      const auto sibling = nodes_.find((node.index ^ 1) << node.level);
      if (sibling == nodes_.end() || sibling->second.first != node.level) break;
      T other = std::move(sibling->second.second);
      nodes_.erase(sibling);
      value =
          (node.index & 1) == 0 ? add_(std::move(value), std::move(other)) : add_(std::move(other), std::move(value));
      node = {node.level + 1, node.index / 2};
    }
    const auto next = nodes_.lower_bound(node.first());
    WEFT_CHECK(next == nodes_.end() || next->first >= node.end());
    WEFT_CHECK(next == nodes_.begin() || end_of(std::prev(next)) <= node.first());
    nodes_.emplace_hint(next, node.first(), std::pair{node.level, std::move(value)});
  }

  // In the order of their leaves.
  [[nodiscard]] std::vector<LeafNode> nodes() const {
    std::vector<LeafNode> result;
    for (const auto& [first, entry] : nodes_) result.push_back({entry.first, first >> entry.first});
    return result;
  }
  [[nodiscard]] std::vector<T> values() const {
    std::vector<T> result;
    for (const auto& [first, entry] : nodes_) result.push_back(entry.second);
    return result;
  }

  // The value over leaves 0 to leaves - 1, all of which were added: where the tree's right side is missing, a node has
  // its left child's value. The sum is empty afterwards.
  [[nodiscard]] T root(int64_t leaves) {
    int64_t next = 0;
    for (const auto& [first, entry] : nodes_) {
      WEFT_CHECK(first == next);
      next = first + (int64_t{1} << entry.first);
    }
    WEFT_CHECK(leaves > 0 && next == leaves);
    auto last = std::prev(nodes_.end());
    T value = std::move(last->second.second);
    while (last != nodes_.begin()) {
      --last;
      value = add_(std::move(last->second.second), std::move(value));
    }
    nodes_.clear();
    return value;
  }

 private:
  using Nodes = std::map<int64_t, std::pair<int, T>>;  // by first leaf: level and value
  static int64_t end_of(typename Nodes::const_iterator node) {
    return node->first + (int64_t{1} << node->second.first);
  }

  Add add_;
  Nodes nodes_;
};

}  // namespace weft
