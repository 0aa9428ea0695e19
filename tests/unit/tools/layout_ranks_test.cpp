// What processes of a bench make of each other's times. Threads stand for the processes.
#include "bench/layout_ranks.hpp"

#include <gtest/gtest.h>

namespace samebits::tools {
namespace {

TEST(LayoutRanks, ARunIsAsLongAsThatOfItsSlowestRank) {
  EXPECT_EQ(slowest({{3, 1, 2}, {1, 4, 2}, {}}), (std::vector<double>{3, 4, 2}));
  EXPECT_TRUE(slowest({{}, {}}).empty());
}

TEST(LayoutRanks, WhatIsLeftMayBeBelowZero) {
  EXPECT_EQ(difference({5, 3, 4}, {3, 3.5, 4}), (std::vector<double>{2, -0.5, 0}));
  EXPECT_TRUE(difference({5, 3}, {}).empty());
}

TEST(LayoutRanks, EveryRankHearsTheSlowestOfAll) {
  run_local(3, [](int rank, std::shared_ptr<Transport> transport) {
    const World world(std::move(transport), "threads");
    std::vector<double> mine;
    if (rank < 2) mine = {10.5 + rank, 20.5 - rank};  // the third had no part
    EXPECT_EQ(slowest_of_world(world, mine), (std::vector<double>{11.5, 20.5}));
  });
}

}  // namespace
}  // namespace samebits::tools
