#include "model/tensor_cut.h"

#include <gtest/gtest.h>

namespace weft::model {
namespace {

TEST(TensorCut, DividesGroupsWhileTheySuffice) {
  const Heads heads{12, 4};
  EXPECT_EQ(held_query_heads(heads, 2, 1), (Range{6, 12}));
  EXPECT_EQ(held_key_value_heads(heads, 2, 1), (Range{2, 4}));
  EXPECT_EQ(held_query_heads(heads, 3, 0), (Range{0, 6}));  // 2, 1, 1 groups
  EXPECT_EQ(held_query_heads(heads, 3, 2), (Range{9, 12}));
  EXPECT_EQ(held_key_value_heads(heads, 3, 2), (Range{3, 4}));
}

TEST(TensorCut, DividesQueryHeadsBeyondThem) {
  const Heads heads{6, 2};
  EXPECT_EQ(held_query_heads(heads, 4, 1), (Range{2, 4}));  // heads 2 and 3 read both key/value heads
  EXPECT_EQ(held_key_value_heads(heads, 4, 1), (Range{0, 2}));
  EXPECT_EQ(held_key_value_heads(heads, 4, 0), (Range{0, 1}));
  EXPECT_EQ(held_key_value_heads(heads, 4, 3), (Range{1, 2}));
}

// Whatever the sizes: query heads are divided without gap or overlap, and each finds its key/value head.
TEST(TensorCut, HoldsTheKeysOfItsQueries) {
  for (const int64_t key_value : {1, 2, 3, 5}) {
    for (const int64_t group : {1, 2, 3, 4}) {
      const Heads heads{key_value * group, key_value};
      for (int64_t tensor = 1; tensor <= heads.query; ++tensor) {
        int64_t next = 0;
        for (int64_t rank = 0; rank < tensor; ++rank) {
          const Range query = held_query_heads(heads, tensor, rank);
          const Range held = held_key_value_heads(heads, tensor, rank);
          EXPECT_EQ(query.begin, next);
          EXPECT_GT(query.size(), 0);
          next = query.end;
          EXPECT_EQ(held.begin, query.begin / group);
          EXPECT_EQ(held.end - 1, (query.end - 1) / group);
        }
        EXPECT_EQ(next, heads.query);
      }
    }
  }
}

TEST(TensorCut, GivesElements) {
  using Kind = TensorCut::Kind;
  EXPECT_EQ((TensorCut{Kind::kWhole, 0, {}}.held(10, 3, 2)), (Range{0, 10}));
  EXPECT_EQ((TensorCut{Kind::kUnits, 0, {}}.held(65, 4, 0)), (Range{0, 17}));  // units of 9, 8, 8, ...
  EXPECT_EQ((TensorCut{Kind::kQueryHeads, 1, {6, 2}}.held(60, 4, 1)), (Range{20, 40}));
  EXPECT_EQ((TensorCut{Kind::kKeyValueHeads, 0, {6, 2}}.held(20, 4, 1)), (Range{0, 20}));
}

}  // namespace
}  // namespace weft::model
