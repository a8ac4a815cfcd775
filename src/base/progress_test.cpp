#include "base/progress.h"

#include <limits>

#include <gtest/gtest.h>

namespace weft {
namespace {

TEST(Progress, DurationsUseTwoUnits) {
  EXPECT_EQ(duration_text(0.4), "0s");
  EXPECT_EQ(duration_text(59.6), "1m 00s");
  EXPECT_EQ(duration_text(3 * 3600 + 5 * 60), "3h 05m");
  EXPECT_EQ(duration_text(86400.0 * 3 + 3600 * 4), "3d 4h");
  EXPECT_EQ(duration_text(std::numeric_limits<double>::infinity()), "?");
}

TEST(Progress, QuantitiesHaveThreeDigits) {
  EXPECT_EQ(quantity_text(0), "0");
  EXPECT_EQ(quantity_text(950), "950");
  EXPECT_EQ(quantity_text(0.5), "0.50");
  EXPECT_EQ(quantity_text(999.7), "1.00k");
  EXPECT_EQ(quantity_text(13245), "13.2k");
  EXPECT_EQ(quantity_text(1.254e6), "1.25M");
  EXPECT_EQ(quantity_text(999'960), "1.00M");
}

TEST(Progress, CountsAreGroupedByThousands) {
  EXPECT_EQ(grouped_text(0), "0");
  EXPECT_EQ(grouped_text(999), "999");
  EXPECT_EQ(grouped_text(1000), "1,000");
  EXPECT_EQ(grouped_text(1234567), "1,234,567");
}

TEST(Progress, ALineTellsShareRateAndTimeLeft) {
  EXPECT_EQ(progress_text("tokenizing", "bytes", 250, 1000, 2, ""),
            "tokenizing  25% 250/1.00k bytes  125 bytes/s  6s left");
  EXPECT_EQ(progress_text("training", "tokens", 999, 1000, 1, "loss 1.92"),
            "training  99% 999/1.00k tokens  999 tokens/s  loss 1.92  0s left");
  EXPECT_EQ(progress_text("reading", "lines", 10, 0, 2, ""), "reading 10 lines  5 lines/s");
}

}  // namespace
}  // namespace weft
