#include "base/units.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

TEST(Units, PartsCoverAllAndTheFirstHoldOneMore) {
  EXPECT_EQ(part(7, 3, 0), (Range{0, 3}));
  EXPECT_EQ(part(7, 3, 1), (Range{3, 5}));
  EXPECT_EQ(part(7, 3, 2), (Range{5, 7}));
  EXPECT_EQ(part(2, 4, 3), (Range{2, 2}));
}

TEST(Units, CutsFallOnBordersOfUnits) {
  for (const int64_t size : {0, 1, 7, 8, 64, 100}) {
    for (int64_t ranks = 1; ranks <= 9; ++ranks) {
      int64_t end = 0;
      for (int64_t rank = 0; rank < ranks; ++rank) {
        const Range held = cut(size, kUnits, ranks, rank);
        EXPECT_EQ(held.begin, end);
        const Range units = part(kUnits, ranks, rank);
        int64_t elements = 0;
        for (int64_t unit = units.begin; unit < units.end; ++unit) elements += part(size, kUnits, unit).size();
        EXPECT_EQ(held.size(), elements);
        end = held.end;
      }
      EXPECT_EQ(end, size);
    }
  }
}

}  // namespace
}  // namespace weft
