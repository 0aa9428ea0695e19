// What processes of a bench make of each other's times and refusals. Threads stand for the processes.
#include "bench/layout_ranks.hpp"

#include <gtest/gtest.h>

#include <atomic>

#include "block/layout_run.hpp"
#include "samebits/error.hpp"

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

TEST(LayoutRanks, OnlyTheLayoutsRanksTakePart) {
  std::atomic<int> ran = 0;
  run_local(3, [&](int rank, std::shared_ptr<Transport> transport) {
    const World world(std::move(transport), "threads");
    on_ranks_of({.tp = 2}, world, [&] {
      EXPECT_LT(rank, 2);
      ++ran;
    });
  });
  EXPECT_EQ(ran, 2);
}

TEST(LayoutRanks, ARefusalReachesEveryRank) {
  std::atomic<int> refused = 0;
  run_local(3, [&](int, std::shared_ptr<Transport> transport) {
    const World world(std::move(transport), "threads");
    try {
      on_ranks_of({.tp = 2}, world, [] { throw Error(ErrorCode::refused, "a cut inside a leaf"); });
    } catch (const LayoutRefused& error) {
      EXPECT_NE(std::string(error.what()).find("a cut inside a leaf"), std::string::npos);
      ++refused;
    }
  });
  EXPECT_EQ(refused, 3);
}

}  // namespace
}  // namespace samebits::tools
