#include "base/leaf_tree.h"

#include <string>

#include <gtest/gtest.h>

namespace weft {
namespace {

// Shows the order of all additions.
struct AddText {
  std::string operator()(const std::string& left, const std::string& right) const {
    return "(" + left + "+" + right + ")";
  }
};
using TextSum = LeafSum<std::string, AddText>;

std::string value_of(LeafNode node) {
  if (node.level == 0) return std::to_string(node.index);
  return AddText()(value_of({node.level - 1, 2 * node.index}), value_of({node.level - 1, 2 * node.index + 1}));
}

std::string sum_in_one(int64_t leaves) {
  TextSum sum;
  for (int64_t leaf = 0; leaf < leaves; ++leaf) sum.add({0, leaf}, std::to_string(leaf));
  return sum.root(leaves);
}

TEST(LeafTree, AddsSiblings) {
  EXPECT_EQ(sum_in_one(1), "0");
  EXPECT_EQ(sum_in_one(4), "((0+1)+(2+3))");
  EXPECT_EQ(sum_in_one(7), "(((0+1)+(2+3))+((4+5)+6))");
}

TEST(LeafTree, FindsTheLargestSubtrees) {
  EXPECT_EQ(complete_subtrees({{0, 8}}), (std::vector<LeafNode>{{3, 0}}));
  EXPECT_EQ(complete_subtrees({{1, 7}}), (std::vector<LeafNode>{{0, 1}, {1, 1}, {1, 2}, {0, 6}}));
  EXPECT_EQ(complete_subtrees({{0, 2}, {2, 4}, {6, 8}}), (std::vector<LeafNode>{{2, 0}, {1, 3}}));
  EXPECT_EQ(complete_subtrees({{3, 3}}), (std::vector<LeafNode>{}));
}

// However the leaves are divided and in whatever order they come, each rank ends with the complete subtrees of its
// ranges, and all together with the same sum.
TEST(LeafTree, DoesNotDependOnTheDivision) {
  for (const int64_t leaves : {1, 2, 5, 8, 13, 24}) {
    const std::string whole = sum_in_one(leaves);
    for (const int64_t ranks : {1, 2, 3, 4, 7}) {
      TextSum merged;
      for (int64_t rank = ranks; rank-- > 0;) {
        // Two pieces a rank, as under context parallelism.
        const Range first = part(leaves, 2 * ranks, rank), second = part(leaves, 2 * ranks, 2 * ranks - 1 - rank);
        TextSum own;
        for (const Range& range : {second, first}) {
          for (int64_t leaf = range.end; leaf-- > range.begin;) own.add({0, leaf}, std::to_string(leaf));
        }
        EXPECT_EQ(own.nodes(), complete_subtrees({first, second}));
        const std::vector<std::string> values = own.values();
        for (size_t i = 0; i < values.size(); ++i) {
          EXPECT_EQ(values[i], value_of(own.nodes()[i]));
          merged.add(own.nodes()[i], values[i]);
        }
      }
      EXPECT_EQ(merged.root(leaves), whole) << leaves << " leaves, " << ranks << " ranks";
    }
  }
}

TEST(LeafTree, MissesNoLeafAndTakesNoneTwice) {
  TextSum sum;
  sum.add({0, 0}, "0");
  sum.add({0, 2}, "2");
  EXPECT_ANY_THROW((void)sum.root(3));
  EXPECT_ANY_THROW(sum.add({0, 2}, "2"));
  sum.add({0, 1}, "1");
  EXPECT_ANY_THROW(sum.add({0, 1}, "1"));
}

}  // namespace
}  // namespace weft
