// Choices for few tokens: every row belongs to a block, slots end with leaves, and what is asked for fits.
#include "engine/cuda/sm90/stream_tuning.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "engine/cuda/sm90/stream_sizes.hpp"
#include "support/values.hpp"

namespace samebits::test {
namespace {

using namespace engine::cuda::stream;
using engine::cuda::StreamDevice;

constexpr int kMostShared = 227 * 1024;  // of a block on Hopper

void expect_sound(const PhaseShape& shape, const PhaseTuning& tuning, const StreamTuning& launch,
                  int tokens) {
  EXPECT_LE(tuning.rows, std::max(shape.most_rows, shape.columns ? 32 : 8));
  EXPECT_EQ(tuning.rows % (shape.columns ? 32 : 8), 0);
  EXPECT_GE(std::int64_t{tuning.units} * tuning.rows, shape.rows);
  EXPECT_LT((std::int64_t{tuning.units} - 1) * tuning.rows, shape.rows);
  EXPECT_EQ(tuning.slot_bytes, tuning.per_slot * (shape.parts * tuning.rows + tokens) * kRowBytes);
  EXPECT_LE(tuning.slot_bytes, launch.slot_bytes);
  EXPECT_LE(tuning.per_slot * kTurn, 256);  // of a copy's box
  if (shape.common_turns > 0) {
    EXPECT_EQ(shape.common_turns % tuning.per_slot, 0);
  }
}

TEST(StreamTuning, RandomStages) {
  Random random(8);
  for (int round = 0; round < 3000; ++round) {
    const int tokens = 8 << uniform(random, 0, 4);
    const auto stage = [&] {
      PhaseShape shape;
      shape.rows = uniform(random, 1, 30000);
      shape.columns = uniform(random, 0, 1) == 0;
      shape.parts = shape.columns ? 1 : static_cast<int>(uniform(random, 1, 2));
      // Warps of 16 rows; two stages of few rows split the tokens among four warps.
      shape.most_rows = tokens <= 64 && uniform(random, 0, 1) == 0 ? 96 : 48;
      shape.values = static_cast<int>(4 << uniform(random, 0, 4));
      shape.pending = static_cast<int>(uniform(random, 0, 8));
      shape.turns = static_cast<int>(uniform(random, 1, 400));
      shape.common_turns = uniform(random, 0, 1) == 0 ? 0 : static_cast<int>(uniform(random, 1, 24));
      return shape;
    };
    const PhaseShape first = stage(), second = stage();
    const bool two = uniform(random, 0, 1) == 0;
    const StreamDevice device{{132, 132, static_cast<int>(uniform(random, 0, 33)) * 4}};
    SCOPED_TRACE(fmt::format("{} tokens, {} and {} rows", tokens, first.rows, two ? second.rows : 0));
    const StreamTuning launch = choose_stream(tokens, first, two ? &second : nullptr, device);
    expect_sound(first, launch.first, launch, tokens);
    if (two) expect_sound(second, launch.second, launch, tokens);
    EXPECT_GE(launch.slots, 2);
    EXPECT_LE(launch.slots, kMostSlots);
    EXPECT_LE(launch.shared_bytes, kMostShared);
    EXPECT_EQ(launch.blocks % launch.cluster, 0);
    EXPECT_GT(launch.blocks, 0);
    EXPECT_LE(launch.blocks, device.blocks[launch.cluster / 2]);
    EXPECT_TRUE(launch.cluster == 1 || tokens / launch.cluster >= 8);
  }
}

}  // namespace
}  // namespace samebits::test
