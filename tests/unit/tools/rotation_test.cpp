#include "bench/rotation.hpp"

#include <gtest/gtest.h>

namespace samebits::tools {
namespace {

constexpr std::int64_t kCache = 50'000'000;

TEST(Rotation, OthersReadSeveralCachesBetweenTwoUses) {
  for (const std::int64_t weights : {15'000'000, 38'000'000, 151'000'000, 302'000'000}) {
    const Rotation rotation = rotation_for(weights, kCache, 5);
    EXPECT_TRUE(rotation.beyond_cache) << weights;
    EXPECT_GT((rotation.sets - 1) * weights, 2 * kCache) << weights;
    EXPECT_EQ(rotation.calls % rotation.sets, 0) << weights;
    EXPECT_GE(rotation.calls, 5) << weights;
  }
}

TEST(Rotation, OneTurnWhereCallsAreLong) {
  EXPECT_EQ(rotation_for(302'000'000, kCache, 1).calls, 2);
  EXPECT_EQ(rotation_for(38'000'000, kCache, 1).calls, 5);
}

TEST(Rotation, SmallWeightsStayInTheCacheAndItIsSaid) {
  const Rotation rotation = rotation_for(1'000'000, kCache, 5);
  EXPECT_EQ(rotation.sets, 16);
  EXPECT_FALSE(rotation.beyond_cache);
  EXPECT_EQ(rotation_for(0, kCache, 5).sets, 16);
}

}  // namespace
}  // namespace samebits::tools
