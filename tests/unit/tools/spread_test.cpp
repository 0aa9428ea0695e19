#include "bench/spread.hpp"

#include <gtest/gtest.h>

namespace samebits::tools {
namespace {

TEST(Spread, OfOneSampleIsTheSample) {
  const Spread spread = spread_of({5});
  EXPECT_EQ(spread.median, 5);
  EXPECT_EQ(spread.p95, 5);
  EXPECT_EQ(spread.min, 5);
  EXPECT_EQ(spread.max, 5);
}

TEST(Spread, OrderDoesNotMatter) {
  const Spread spread = spread_of({4, 1, 3, 2});
  EXPECT_EQ(spread.median, 2.5);
  EXPECT_EQ(spread.p95, 4);
  EXPECT_EQ(spread.min, 1);
  EXPECT_EQ(spread.max, 4);
}

TEST(Spread, NinetyFivePercentDoNotExceedP95) {
  std::vector<double> samples;
  for (int i = 1; i <= 100; ++i) samples.push_back(i);
  EXPECT_EQ(spread_of(samples).p95, 95);
  samples.resize(20);
  EXPECT_EQ(spread_of(samples).p95, 19);
}

}  // namespace
}  // namespace samebits::tools
